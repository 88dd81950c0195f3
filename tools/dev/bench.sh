#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench: command/bench/tutti_bench.py on the benches of this tree, which it builds.
set -euo pipefail
. tools/dev/build.sh

bench=command/bench/tutti_bench.py

# Builds the benches and the programs of other libraries, and compares them.
compare_with_peers() {
  local compare=benches/peers/compare.py groups
  case " $* " in *" --help "* | *" -h "*) exec python3 "$compare" --help ;; esac
  groups=$(python3 "$compare" build/peers/benches --groups "$@") # and what means nothing is refused
  # shellcheck disable=SC2086  # one word each
  tools/setup.sh build bench peers $groups
  if [[ $groups == *torch* && ! -x build/torch/bin/python3 ]]; then
    echo "bench: PyTorch is missing (build/torch, installed from PyPI): run it again where PyPI can be reached;" \
      "'--only all_reduce' and '--only processes' need no PyTorch" >&2
    exit 1
  fi
  configure build/peers -Dcpu_arch=native -Dpeers=true -Dcuda=disabled -Dtests=false -Dexamples=false
  compile build/peers bench_executables peers
  exec python3 "$compare" build/peers/benches --torch build/torch/bin/python3 "$@"
}

case ${1:-} in compare | history) exec "$bench" "$@" ;; esac
case " $* " in *" --peers "*) compare_with_peers "$@" ;; esac

# Words that mean nothing are refused before anything is built.
"$bench" --check "$@" || exit
case " $* " in
  *" --help "* | *" -h "*)
    cat <<'TEXT'

Here `tutti bench` is `./dev bench`, which builds the benches. There is also:

  ./dev bench --peers [OPTION...]   all-reduce and training steps beside Gloo, Open MPI and PyTorch, which it installs;
                                    --only PART, --rounds N and others shorten it (try --help)
TEXT
    exit
    ;;
esac
tools/setup.sh build test bench
configure_release
compile "$release" bench_executables
exec "$bench" --programs "$release/benches" "$@"
