#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev demo [digits | text | recommender | resume] [OPTION...]: builds that example, digits if none is named, for this machine and runs it.
# Those that write metrics have a report of the run at their end.
set -euo pipefail
. tools/dev/build.sh

example=digits
case ${1:-} in
  digits | text | recommender | resume)
    example=$1
    shift
    ;;
esac
# The programs' own texts, which tests/examples/help_test.cpp compares.
for option in "$@"; do
  case $option in
    -h | --help)
      cat "examples/help/$example.txt"
      exit
      ;;
  esac
done
tools/setup.sh build report
folder=""
configure_demo "examples/$example"
program=$folder/examples/$example
# Without ccache, which would preprocess each source first: what is compiled here stays in the folder.
CCACHE_DISABLE=1 compile "$folder" "examples/$example"
# Several processes are started by the command.
for option in "$@"; do
  case $option in --processes | --processes=*) compile "$folder" command/tutti ;; esac
done
# Paths are the caller's; the defaults lie here.
paths=()
output=runs/$example
last=""
for option in "$@"; do
  case $last:$option in
    --*:/* | :*=/*) ;;
    --*:*) option=$TUTTI_CALLED_FROM/$option ;;
    :--data=* | :--output=* | :--text=*) option=${option%%=*}=$TUTTI_CALLED_FROM/${option#*=} ;;
  esac
  case $last$option in --output/* | --output=*) output=${option#--output=} ;; esac
  case $last:$option in :--data | :--output | :--text) last=$option ;; *) last="" ;; esac
  paths+=("$option")
done
[ "$example" != resume ] || exec "$program" ${paths[@]+"${paths[@]}"}
exec tools/dev/run_then_report.py "$output" "$program" ${paths[@]+"${paths[@]}"}
