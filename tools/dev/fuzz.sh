#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/dev/fuzz.sh [SECONDS] [FOLDER]: runs each fuzzer of FOLDER (default: build/clang, as ./dev check --full builds it)
# for so long (default: 60). What it finds is kept in runs/fuzz. The last line counts fuzzers.
set -uo pipefail

seconds=${1:-60}
programs=${2:-build/clang}/tests/fuzz
passed=0 failed=0
mkdir -p runs/fuzz
"$programs/write_seeds" runs/fuzz/seeds || exit 1

for fuzzer in "$programs"/fuzz_*; do
  [ -x "$fuzzer" ] && [ ! -d "$fuzzer" ] || continue
  name=$(basename "$fuzzer")
  format=${name#fuzz_}
  mkdir -p "runs/fuzz/corpus/$format"
  # What the uninstrumented libraries do to containers is not annotated.
  if ASAN_OPTIONS=detect_container_overflow=0 "$fuzzer" -max_total_time="$seconds" -max_len=8192 -timeout=10 \
    -rss_limit_mb=2048 -malloc_limit_mb=64 -print_final_stats=1 -verbosity=0 -artifact_prefix="runs/fuzz/$format-" \
    "runs/fuzz/corpus/$format" "runs/fuzz/seeds/$format" >"runs/fuzz/$format.log" 2>&1; then
    passed=$((passed + 1))
    echo "$name: ok, $(sed -n 's/^stat::number_of_executed_units: *//p' "runs/fuzz/$format.log") inputs"
  else
    failed=$((failed + 1))
    echo "$name: FAILED"
    tail -n 40 "runs/fuzz/$format.log"
  fi
done
[ $((passed + failed)) -gt 0 ] || {
  echo "no fuzzers in $programs: it takes clang"
  failed=1
}
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
