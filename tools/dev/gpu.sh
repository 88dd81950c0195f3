#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev gpu [--headers FOLDER] [--seconds N] [--build-seconds N] [--output FOLDER] [--rehearse]: checks and measures on a machine with one
# GPU, which may have no network, and writes docs/project/gpu-results.md. Stages run one after the other, the most valuable first, each
# until so many seconds after the start. After each, gpu-results.md and gpu.tgz, with all logs and numbers so far, are in the
# output folder, whatever becomes of the next. The results are printed last.
#
# --pack [--without-build]: does none of this, but makes build-gpu-pack, here, where network and compilers are: with that
#   folder beside the tree such a machine needs python3, CUDA's libraries and its driver alone. Without it, or where its programs do
#   not start or are of other sources, all is compiled there, which takes g++ and CUDA's toolkit.
# --headers FOLDER: what is not installed may lie there, if not in the pack: headers in FOLDER or FOLDER/include (Eigen/,
#   doctest/, fmt/, CLI/, nlohmann/, zlib.h, nccl.h; Eigen also below eigen3/), libraries in FOLDER/lib, and Meson and Ninja as
#   `pip install --target FOLDER/python meson ninja` puts them. NCCL is also taken from Python's package for it.
# --seconds N: for everything (540); --build-seconds N: of them, for compiling if it comes to that (240). --output FOLDER: where
#   results go (the folder in $OUT if it is set, else runs/gpu).
# --only "STAGE ...": no other stages than these, and those before the comparison; docs/project/gpu-results.md stays as it is.
# --rehearse: all stages on CPU devices with tiny sizes; the document goes to the output folder. tools/dev/rehearse_gpu.sh does
#   so in an empty Debian.
set -uo pipefail
. tools/dev/gpu_stages.sh

if [ "${1:-}" = --pack ]; then
  shift
  exec tools/dev/pack_gpu.sh "$@"
fi

export headers="" device=cuda programs=$build
stages="comparison ranks benches torch tests memcheck profile racecheck"
output=${OUT:-runs/gpu} seconds=540 build_seconds=240 only="" rehearse=0
while [ $# -gt 0 ]; do
  case $1 in
    --headers | --seconds | --build-seconds | --only | --output)
      [ $# -gt 1 ] || refuse "$1 wants a value"
      option=${1#--}
      declare "${option/-/_}=$2"
      shift
      ;;
    --rehearse) rehearse=1 device=cpu ;;
    *) refuse "unknown option '$1'; there are --headers, --seconds, --build-seconds, --only, --output, --rehearse and --pack" ;;
  esac
  shift
done
for name in $only; do
  [[ " $stages " == *" $name "* ]] || refuse "--only: there is no stage '$name'; there are $stages"
done
[[ $seconds$build_seconds =~ ^[0-9]+$ ]] || refuse "--seconds and --build-seconds are numbers"
[ -z "$headers" ] || headers=$(from_caller "$headers")
[ "$output" = runs/gpu ] || output=$(from_caller "$output")
export logs=$PWD/$build.logs
[ -z "$headers" ] || [ -d "$headers" ] || refuse "--headers: there is no folder $headers"

# What links and runs on the GPU is asked first: without one nothing is built or written.
if [ $rehearse -eq 0 ] && ! found=$(python3 tools/gpu_results.py --probe); then
  echo "gpu: no GPU can be used here: $found; --rehearse runs the stages on the CPU" >&2
  exit 3
fi

started=$SECONDS
failed=0

# Writes the document, and replaces what the output folder has by what there is now.
bring_home() {
  python3 tools/gpu_results.py "$logs" --document "$logs/gpu-results.md" || return
  [ $rehearse -eq 1 ] || [ -n "$only" ] || cp "$logs/gpu-results.md" docs/project/gpu-results.md || return
  cp "$logs/gpu-results.md" "$output/gpu-results.md.part" && mv "$output/gpu-results.md.part" "$output/gpu-results.md" || return
  tar -C "$logs" -czf "$output/gpu.tgz.part" . && mv "$output/gpu.tgz.part" "$output/gpu.tgz"
}

# stage NAME UNTIL: runs the function of that name in tools/dev/gpu_stages.sh until UNTIL seconds after the start (more by
# what compiling took), and never past the end of all. Its output goes to NAME.log; name, status, seconds and limit are added
# to stages.txt.
stage() {
  local name=$1 now=$((SECONDS - started)) status=124 from=$SECONDS
  [[ -z $only || " unpack probe build $only " == *" $name "* ]] || return 0
  local limit=$(($2 + built - now)) left=$((seconds - now - 5))
  [ "$limit" -lt "$left" ] || limit=$left
  [ "$limit" -gt 0 ] || limit=0
  echo "== $name (at most $limit s)"
  if [ "$limit" -gt 0 ]; then
    stage_seconds=$limit tools/command_progress.py --at-most "$limit" "$logs/$name.log" "$name" \
      timeout -k 5 "$limit" bash tools/dev/gpu_stages.sh "$name" </dev/null
    status=$?
    [ $status -ne 137 ] || status=124 # it had to be killed
  else
    echo "no time was left" >"$logs/$name.log"
  fi
  tail -n 40 "$logs/$name.log"
  echo "$name $status $((SECONDS - from)) $limit" >>"$logs/stages.txt"
  [ $status -eq 0 ] || [ $status -eq $not_here ] || failed=1
  bring_home || failed=1
}

rm -rf "$logs"
mkdir -p "$logs" "$output"
rm -f "$output/gpu-results.md" "$output/gpu.tgz"
built=0
stage unpack 20
[ -n "$headers" ] || [ ! -d $unpacked/headers ] || headers=$PWD/$unpacked/headers
find_libraries
stage probe 60
[ -f "$logs/programs" ] || rm -f $unpacked/commit # of what is not used
python3 tools/gpu_results.py --machine >"$logs/machine.json"
if [ -f "$logs/programs" ]; then
  programs=$(cat "$logs/programs")
else
  stage build $((SECONDS - started + build_seconds))
  built=$((SECONDS - started))
fi
stage comparison 90
stage ranks 170
stage benches 220
stage torch 360
stage tests 470
stage memcheck 500
stage profile 515
stage racecheck 540
echo
cat "$logs/gpu-results.md"
echo "results are in $output: gpu-results.md, and in gpu.tgz all logs and numbers"
exit $failed
