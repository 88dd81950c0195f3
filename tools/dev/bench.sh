#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench [FILTER]: builds and runs the benches whose name matches a regular expression.
# ./dev bench --peers [OPTION...]: runs them beside Gloo, Open MPI and libtorch; options go to benches/peers/compare.py.
set -euo pipefail
. tools/dev/build.sh

if [ "${1:-}" = --peers ]; then
  shift
  tools/setup.sh build bench peers
  configure build/peers -Dcpu_arch=native -Dpeers=true -Dcuda=disabled -Dtests=false -Dexamples=false
  compile build/peers bench_executables peers
  exec python3 benches/peers/compare.py build/peers/benches "$@"
fi

if [ $# -gt 1 ]; then
  echo "bench: one filter at most, not '$*'" >&2
  exit 2
fi
filter=${1:-.}
tools/setup.sh build test bench
configure_release
compile "$release" bench_executables

mkdir -p runs/bench
matched=0
for bench in "$release"/benches/*_bench; do
  [ -x "$bench" ] || continue
  # Google Benchmark says on stderr, and by its status in some versions, that nothing matched.
  "$bench" --benchmark_filter="$filter" --benchmark_list_tests 2>/dev/null | grep -q . || continue
  matched=1
  name=$(basename "$bench")
  echo
  echo "== $name"
  "$bench" --benchmark_filter="$filter" --benchmark_out="runs/bench/$name.json" --benchmark_out_format=json
  echo "wrote runs/bench/$name.json"
done
if [ "$matched" -eq 0 ]; then
  echo "bench: no bench matches '$filter'" >&2
  exit 1
fi
