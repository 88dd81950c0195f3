#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev docs [--serve [PORT]]: the documentation site in build/site/html, with guides, explanations and every public symbol. --serve
# shows it on loopback, where its search works, too (port 8000 unless told). Nothing is compiled. docs/project/documents.md
set -euo pipefail

stop() {
  echo "docs: $1" >&2
  exit 2
}

serve=0 port=8000
case ${1:-}:$# in
  :0) ;;
  --serve:1 | --serve:2) serve=1 port=${2:-8000} ;;
  *) stop "usage: ./dev docs [--serve [PORT]]" ;;
esac
[[ $port =~ ^[0-9]+$ ]] || stop "'$port' is no port"

tools/setup.sh docs
[ -x build/docs/bin/python3 ] || stop "MkDocs could not be installed"
tools/command_progress.py --seconds 15 build/site.log "docs: building the site" build/docs/bin/python3 tools/documents/build_site.py || {
  cat build/site.log >&2
  exit 1
}
tail -n 1 build/site.log
[ $serve -eq 0 ] || exec python3 -m http.server --bind 127.0.0.1 --directory build/site/html "$port"
