#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev demo [digits | text | recommender | resume] [OPTION...]: builds that example, digits if none is named, for this machine and runs it.
set -euo pipefail
. tools/dev/build.sh

example=digits
case ${1:-} in
  digits | text | recommender | resume)
    example=$1
    shift
    ;;
esac
tools/setup.sh build test bench
configure_release
compile "$release" "examples/$example"
# Paths are the caller's; the defaults lie here.
paths=()
take=0
for option in "$@"; do
  case $take:$option in
    1:/* | 0:*=/*) ;;
    1:*) option=$TUTTI_CALLED_FROM/$option ;;
    0:--data=* | 0:--output=* | 0:--text=*) option=${option%%=*}=$TUTTI_CALLED_FROM/${option#*=} ;;
  esac
  take=0
  case $option in --data | --output | --text) take=1 ;; esac
  paths+=("$option")
done
exec "$release/examples/$example" ${paths[@]+"${paths[@]}"}
