#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev demo [OPTION...]: builds the digits example for this machine and runs it.
set -euo pipefail
. tools/dev/build.sh

tools/setup.sh build test bench
configure_release
compile "$release" examples/digits
exec "$release/examples/digits" "$@"
