#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev demo [OPTION...]: builds the digits example for this machine and runs it.
set -euo pipefail
. tools/dev/build.sh

tools/setup.sh build test bench
configure_release
compile "$release" examples/digits
# Paths are the caller's; the defaults lie here.
paths=()
take=0
for option in "$@"; do
  case $take:$option in
    1:/* | 0:*=/*) ;;
    1:*) option=$TUTTI_CALLED_FROM/$option ;;
    0:--data=* | 0:--output=*) option=${option%%=*}=$TUTTI_CALLED_FROM/${option#*=} ;;
  esac
  take=0
  case $option in --data | --output) take=1 ;; esac
  paths+=("$option")
done
exec "$release/examples/digits" ${paths[@]+"${paths[@]}"}
