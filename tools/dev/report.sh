#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev report: command/report/tutti_report.py, with the plotting library that it needs. Nothing is built.
set -euo pipefail

report=command/report/tutti_report.py

# Words that mean nothing are refused before anything is installed.
"$report" --check "$@" || exit
case " $* " in
  *" --help "* | *" -h "*)
    echo
    echo "Here \`tutti report\` is \`./dev report\`."
    exit
    ;;
esac
tools/setup.sh report
exec "$report" "$@"
