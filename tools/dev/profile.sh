#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev profile [MODEL] [OPTION...]: where the time of a model's training steps goes.
#
# Builds benches/profile_model for this machine and runs it: a table of kernels with calls and milliseconds a step, their
# rates, and how near they are to what this machine can do, measured in the same run (docs/profiling.md).
#
#   MODEL             one of benches/models.h, mlp_784_512_512_10 if none is named; an unknown one is told which there are
#   --steps N         steps that are profiled (20)
#   --threads N       threads of the CPU device (1)
#   --type f32|bf16   bf16: forward and loss under Autocast
#   --shapes          a row for each kernel and shapes
#   --operations      a row for each operation on tensors, and its gradient
#   --trace FILE      writes a trace for Perfetto (https://ui.perfetto.dev), too
set -euo pipefail
. tools/dev/build.sh

# Paths are the caller's.
words=()
take=0
for word in "$@"; do
  case $take:$word in
    1:/* | 0:--trace=/*) ;;
    1:*) word=$TUTTI_CALLED_FROM/$word ;;
    0:--trace=*) word=--trace=$TUTTI_CALLED_FROM/${word#*=} ;;
  esac
  take=0
  [ "$word" != --trace ] || take=1
  words+=("$word")
done
tools/setup.sh build test bench
configure_release
compile "$release" benches/profile_model
exec "$release/benches/profile_model" ${words[@]+"${words[@]}"}
