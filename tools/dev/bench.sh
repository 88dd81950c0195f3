#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench: see usage() below.
set -euo pipefail
. tools/dev/build.sh

usage() {
  cat <<'TEXT'
usage: ./dev bench [FILTER] [--benchmark_OPTION...]
       ./dev bench --list [FILTER]
       ./dev bench --compare OLD NEW
       ./dev bench --peers [OPTION...]

  FILTER            a regular expression: only benches whose name matches it
  --benchmark_...   goes to Google Benchmark: --benchmark_repetitions=10, --benchmark_min_time=0.1, ...
  --list            the names of the benches, and nothing is run
  --compare         two files of earlier runs: ratios of medians, and which differences are more than chance (files are
                    paths or names in runs/bench; both need repetitions)
  --peers           all-reduce and training steps beside Gloo, Open MPI and libtorch, which it installs; options go to
                    benches/peers/compare.py (try --help)

Each run measures what one core can do, multiply-adds and copies, shows figures beside that, and writes a file of its own,
runs/bench/TIME-COMMIT.json, with the machine in its context. An interrupted run keeps what had finished.
TEXT
}

refuse() {
  echo "bench: $1; ./dev bench --help lists the options" >&2
  exit 2
}

set_filter() {
  [ -z "$filter" ] || refuse "one filter at most, not '$filter' and '$1'"
  filter=$1
}

case ${1:-} in
  --compare)
    shift
    exec python3 tools/compare_benches.py "$@"
    ;;
  --peers)
    shift
    tools/setup.sh build bench peers
    configure build/peers -Dcpu_arch=native -Dpeers=true -Dcuda=disabled -Dtests=false -Dexamples=false
    compile build/peers bench_executables peers
    exec python3 benches/peers/compare.py build/peers/benches "$@"
    ;;
esac

filter="" list=() passed=()
for option in "$@"; do
  case $option in
    -h | --help)
      usage
      exit
      ;;
    --list | --benchmark_list_tests | --benchmark_list_tests=true) list=(--list) ;;
    --benchmark_out=* | --benchmark_out_format=*) refuse "'$option': each run writes runs/bench/TIME-COMMIT.json" ;;
    --benchmark_filter=*) set_filter "${option#*=}" ;;
    --benchmark_?*) passed+=("$option") ;;
    -*) refuse "unknown option '$option'" ;;
    *) set_filter "$option" ;;
  esac
done
tools/setup.sh build test bench
configure_release
compile "$release" bench_executables
exec python3 tools/run_benches.py "$release/benches" --filter "${filter:-.}" ${list[@]+"${list[@]}"} -- ${passed[@]+"${passed[@]}"}
