#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev test [--device cpu|cuda|both] [FILTER]: builds and runs the tests. The last line counts test cases.
set -euo pipefail
. tools/dev/build.sh

device=cpu
if [ "${1:-}" = --device ]; then
  device=${2:-}
  shift $(($# > 1 ? 2 : 1))
fi
case $device in
  cpu | cuda | both | foreign) ;;
  *)
    echo "test: --device is cpu, cuda, both or foreign, not '$device'" >&2
    exit 2
    ;;
esac
if [ $# -gt 1 ]; then
  echo "test: one filter at most, not '$*'" >&2
  exit 2
fi
tools/setup.sh build test bench python mpi
if ! configure_release || ! compile "$release" test_executables; then
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
exec tools/run_tests.py "$release" --device "$device" --filter "${1:-}"
