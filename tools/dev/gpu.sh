#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev gpu [--headers FOLDER] [--seconds N] [--build-seconds N] [--output FOLDER] [--rehearse]: checks and measures on a machine with one
# GPU, which may have no network, and writes docs/gpu-results.md. Stages run one after the other, each with a limit;
# what one finished stays written whatever becomes of the next. Needs g++, python3 and CUDA's toolkit.
#
# --headers FOLDER: what is not installed may lie there: headers in FOLDER or FOLDER/include (Eigen/, doctest/, fmt/,
#   CLI/, nlohmann/, zlib.h, nccl.h; Eigen also below eigen3/), libraries in FOLDER/lib, and Meson and Ninja as
#   `pip install --target FOLDER/python meson ninja` puts them. NCCL is also taken from Python's package for it.
# --seconds N: for everything (600); --build-seconds N: of them, for compiling (240). --output FOLDER: where logs and numbers go (runs/gpu).
# --rehearse: all stages on CPU devices with tiny sizes; the document goes to the output folder.
set -uo pipefail
. tools/dev/gpu_stages.sh

export headers="" output=runs/gpu device=cuda
seconds=600 build_seconds=240 rehearse=0
while [ $# -gt 0 ]; do
  case $1 in
    --headers | --seconds | --build-seconds | --output)
      [ $# -gt 1 ] || refuse "$1 wants a value"
      option=${1#--}
      declare "${option/-/_}=$2"
      shift
      ;;
    --rehearse) rehearse=1 device=cpu ;;
    *) refuse "unknown option '$1'; there are --headers, --seconds, --build-seconds, --output and --rehearse" ;;
  esac
  shift
done
[[ $seconds$build_seconds =~ ^[0-9]+$ ]] || refuse "--seconds and --build-seconds are numbers"
[ -z "$headers" ] || headers=$(from_caller "$headers")
[ "$output" = runs/gpu ] || output=$(from_caller "$output")
[ -z "$headers" ] || [ -d "$headers" ] || refuse "--headers: there is no folder $headers"

# What links and runs on the GPU is asked first: without one nothing is built or written.
if [ $rehearse -eq 0 ] && ! found=$(python3 tools/gpu_results.py --probe); then
  echo "gpu: no GPU can be used here: $found; --rehearse runs the stages on the CPU" >&2
  exit 3
fi
document=docs/gpu-results.md
[ $rehearse -eq 0 ] || document=$output/gpu-results.md

started=$SECONDS
failed=0

# stage NAME LIMIT: runs the function of that name in tools/dev/gpu_stages.sh for at most LIMIT seconds, and never past
# the end of all. Its output goes to NAME.log; name, status, seconds and limit are added to stages.txt.
stage() {
  local name=$1 limit=$2 status=124 from=$SECONDS left=$((seconds - (SECONDS - started) - 5))
  [ "$limit" -lt "$left" ] || limit=$left
  echo "== $name (at most $limit s)"
  if [ "$limit" -gt 0 ]; then
    timeout -k 5 "$limit" bash tools/dev/gpu_stages.sh "$name" >"$output/$name.log" 2>&1 </dev/null
    status=$?
    [ $status -ne 137 ] || status=124 # it had to be killed
  else
    echo "no time was left" >"$output/$name.log"
  fi
  tail -n 40 "$output/$name.log"
  echo "$name $status $((SECONDS - from)) $limit" >>"$output/stages.txt"
  [ $status -eq 0 ] || [ $status -eq $not_here ] || failed=1
  python3 tools/gpu_results.py "$output" --document "$document" || failed=1
}

rm -rf "$output"
mkdir -p "$output"
find_dependencies
python3 tools/gpu_results.py --machine >"$output/machine.json"
stage build $build_seconds
stage tests 160
stage ranks 90
stage benches 80
stage torch 45
stage memcheck 60
stage racecheck 60
echo "wrote $document; logs are in $output"
exit $failed
