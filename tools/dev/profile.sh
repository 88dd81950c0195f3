#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev profile [MODEL] [OPTION...]: where the time of a model's training steps goes.
#
# Builds benches/profile_model for this machine and runs it: a table of kernels with calls and milliseconds a step, their
# rates, and how near they are to what this machine can do, measured in the same run (docs/profiling.md).
#
#   MODEL             mlp_784_512_512_10 if none is named, mlp_4x8_10, mlp_784_4x1024_10, digits_cnn, cnn_1_32_64, gpt_4x128,
#                     gpt_6x384, lstm_2x256, resnet_18 (benches/models.h)
#   --steps N         steps that are profiled (20)
#   --threads N       threads of the CPU device (1), whatever TUTTI_CPU_THREADS says
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
