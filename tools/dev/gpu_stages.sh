#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What ./dev gpu does, stage by stage: a function each, with `headers`, `logs`, `device`, `programs` (the folder of what was
# built) and `stage_seconds` in the environment.
# Sourced by tools/dev/gpu.sh, which runs each stage as a process of its own: gpu_stages.sh STAGE.

# shellcheck disable=SC2154 # they come from gpu.sh
build=build/gpu
pack="build-gpu-pack/pack.tar.xz"
unpacked=build/gpu.pack
not_here=77 # a stage's status when what it needs is missing
cuda=${CUDA_PATH:-/usr/local/cuda}
export PATH=$PATH:$cuda/bin

refuse() {
  echo "gpu: $1" >&2
  exit 2
}

from_caller() {
  case $1 in /*) echo "$1" ;; *) echo "$TUTTI_CALLED_FROM/$1" ;; esac
}

# --- before the stages: what they find in the environment

python_package() {
  python3 -c "import importlib.util as u; print(u.find_spec('$1').submodule_search_locations[0])" 2>/dev/null
}

# Where CUDA's libraries may lie: those of Python's packages last, which may be of another CUDA.
find_libraries() {
  local folder name
  export callers_libraries=${LD_LIBRARY_PATH:-}
  for folder in "$headers/lib" "$PWD/$unpacked/headers/lib" "$cuda/lib64" "$cuda/targets/x86_64-linux/lib"; do
    [ ! -d "$folder" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
  done
  for name in cu13 nccl cudnn; do
    folder=$(python_package "nvidia.$name")/lib
    [ ! -d "$folder" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
  done
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
}

# Libraries by the name that a linker looks for: Python's packages and machines without -dev packages have others.
link_libraries() {
  local folder=$PWD/$build.libraries name file
  for name in nccl cudnn cublas cublasLt cufft cusolver z; do
    echo 'int main() {}' | g++ -x c++ - -o /dev/null -L"$cuda/lib64" "-l$name" 2>/dev/null && continue
    file=$(compgen -G "$headers/lib/lib$name.so*" || compgen -G "$(python_package "nvidia.$name")/lib/lib$name.so*" ||
      compgen -G "$(python_package nvidia.cu13)/lib/lib$name.so*" || compgen -G "/usr/lib/*/lib$name.so*" ||
      compgen -G "/lib/*/lib$name.so*")
    file=${file%%$'\n'*}
    [ -z "$file" ] || ln -s "$(readlink -f "$file")" "$folder/lib$name.so"
  done
  export LIBRARY_PATH=$folder${LIBRARY_PATH:+:$LIBRARY_PATH}
}

# Of Python's packages single headers only: beside them lie those of another CUDA.
link_headers() {
  local folder=$PWD/$build.libraries/include file
  mkdir -p "$folder"
  for file in "$(python_package nvidia.nccl)"/include/nccl*.h "$(python_package nvidia.cudnn)"/include/cudnn*.h \
    "$(python_package nvidia.cu13)"/include/cu{blas,fft,solver}*.h; do
    [ ! -f "$file" ] || [ -f "$cuda/include/${file##*/}" ] || [ -f "/usr/include/${file##*/}" ] || ln -s "$file" "$folder"
  done
  for folder in "$folder" ${headers:+"$headers" "$headers/include" "$headers/eigen3" "$headers/include/eigen3"}; do
    [ ! -d "$folder" ] || export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$folder
  done
}

# What compiling needs of this machine, or of `headers`.
find_dependencies() {
  if [ -d "$headers/python" ]; then
    export PATH=$headers/python/bin:$PATH PYTHONPATH=$headers/python${PYTHONPATH:+:$PYTHONPATH}
  fi
  rm -rf "$PWD/$build.libraries"
  link_headers
  link_libraries
}

# --- the stages

unpack() {
  rm -rf $unpacked
  if [ ! -f $pack ]; then
    echo "there is no $pack: ./dev gpu --pack makes it"
    return $not_here
  fi
  mkdir -p $unpacked
  python3 -m tarfile -e $pack $unpacked || tar -C $unpacked -xJf $pack
}

# Whether the programs that were brought along may be used, and start here.
probe() {
  local program
  if [ ! -d $unpacked/tests ]; then
    echo "no programs were brought along"
    return $not_here
  fi
  if [ "$(cat $unpacked/sources)" != "$(python3 tools/source_fingerprint.py)" ]; then
    echo "what was brought along is of other sources"
    return $not_here
  fi
  ldd $unpacked/tests/device_tests | grep 'not found'
  for program in "tests/device_tests --count" "benches/cuda/gpu_bench --help"; do
    # shellcheck disable=SC2086 # a program and its argument
    if ! $unpacked/$program >"$logs/start.txt" 2>&1; then
      tail -n 3 "$logs/start.txt"
      echo "${program%% *} does not start here"
      return $not_here
    fi
  done
  nvidia-smi 2>/dev/null
  if ! TUTTI_TEST_DEVICE=$device $unpacked/tests/device_probe; then
    echo "a program that was built elsewhere cannot use $device:0"
    return $not_here
  fi
  echo $unpacked >"$logs/programs"
}

build() {
  local architecture folder=""
  find_dependencies
  for folder in ${headers:+"$headers/include" "$headers"}; do [ ! -d "$folder/fmt" ] || break; done
  architecture=$(python3 tools/gpu_results.py --architecture) || architecture=90
  if [ ! -f $build/build.ninja ]; then
    for program in meson ninja g++ nvcc; do
      command -v $program >/dev/null || echo "$program is missing: see --headers in tools/dev/gpu.sh"
    done
    meson setup $build --buildtype=release -Dcuda=enabled -Dnccl=auto -Dcpu_arch=native -Dexamples=false \
      -Dgpu_arch="$architecture" -Dheaders="$folder" || return
  fi
  ninja -k 0 -C $build device_programs gpu_bench_executables # what compiles is used, whatever does not
}

# run_cases REPORT OPTION... -- FILTER...: test cases that take any device, of the one program.
run_cases() {
  local report=$1
  shift
  if [ ! -x "$programs/tests/device_tests" ]; then
    echo "there is no $programs/tests/device_tests"
    return 1
  fi
  tools/run_test_cases.py "$programs/tests/device_tests" --device "$device" --case-timeout 120 --report "$logs/$report.json" \
    --seconds $((stage_seconds > 6 ? stage_seconds - 3 : stage_seconds)) "$@" --test-suite-exclude=cpu
}

comparison() {
  run_cases comparison --together 1 --case-timeout 40 -- '--test-case=comparison:*'
}

tests() {
  run_cases tests -- '--test-case-exclude=comparison:*,ranks:*'
}

ranks() {
  if [ "$device" = cpu ]; then
    echo "NCCL connects CUDA devices"
    return $not_here
  fi
  TUTTI_RANKS_REPORT=$logs/ranks.json run_cases ranks-cases --jobs 1 --case-timeout 85 -- '--test-case=ranks:*' || return
  [ -s "$logs/ranks.json" ] || return $not_here # they were skipped
}

# run_bench GROUP NAME: one table of gpu_bench, as NAME.json. A group that it does not have is no failure.
run_bench() {
  local sizes=() steps=200 status=0
  [ "$device" != cpu ] || sizes=(--bytes 65536 --size 64 --seconds 0.002) steps=3
  timeout 50 "$programs/benches/cuda/gpu_bench" --device "$device:0" --only "$1" --output "$logs/$2.json" \
    ${sizes[@]+"${sizes[@]}"} --steps $steps >"$logs/$2.txt" 2>&1 || status=$?
  cat "$logs/$2.txt"
  if [ ! -s "$logs/$2.json" ] && ! "$programs/benches/cuda/gpu_bench" --help | grep -q -w "$1"; then
    echo "gpu_bench has no table $1"
    return 0
  fi
  [ $status -eq 0 ] || echo "gpu_bench --only $1 ended with status $status"
  return $status
}

benches() {
  local group status=0
  for group in memory matmul; do run_bench $group $group || status=1; done
  TUTTI_CUDA_TF32=1 run_bench matmul matmul_tf32 || status=1
  for group in $bench_groups; do run_bench "$group" "$group" || status=1; done
  return $status
}
bench_groups="attention parts"

torch() {
  local steps=200 status=0
  [ "$device" != cpu ] || steps=3
  run_bench training training || status=1
  run_bench gpt2 gpt2 || status=1
  # With the libraries that it came with.
  LD_LIBRARY_PATH=$callers_libraries python3 benches/peers/torch_eager.py --device "$device" --steps $steps --output "$logs/torch.json"
  [ $? -ne $not_here ] || return $((status ? status : not_here))
  return $status
}

# sanitize TOOL FILTER...: over the comparison of devices, which runs every kernel on small arrays: a process for each of
# its parts, in which memory is given back at once, so that none hides what is written beside it.
sanitize() {
  local tool=$1
  shift
  if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer is not installed"
    return $not_here
  fi
  TUTTI_POOL=off run_cases "$tool-cases" --jobs 8 --together 1 --case-timeout 600 --outputs "$logs/$tool" \
    --wrapper "compute-sanitizer --tool $tool --error-exitcode 9 --print-limit 20" -- "$@"
}

memcheck() { sanitize memcheck '--test-case=comparison:*'; }

racecheck() { sanitize racecheck '--test-case=comparison: reductions*,comparison: matrix*,comparison: optimizer*'; }

# The first launch of each of six kernels that hold up training, as the profiler sees it.
profile() {
  local kernel status=0
  if ! command -v ncu >/dev/null; then
    echo "ncu is not installed"
    return $not_here
  fi
  for kernel in grouped_elements transpose_tiles reduce_lines softmax_lines softmax_gradient_lines step_parameters; do
    echo "== $kernel"
    timeout 20 ncu --clock-control none --kernel-name "regex:^$kernel" --launch-count 1 --kill yes \
      --section SpeedOfLight --section MemoryWorkloadAnalysis --section LaunchStats --section Occupancy \
      "$programs/benches/cuda/gpu_bench" --device "$device:0" --only memory --bytes 268435456 --seconds 0.001 >"$logs/ncu.txt" 2>&1
    grep -E '^ +[A-Z(]|^==|==ERROR|No kernels' "$logs/ncu.txt"
    grep -q 'Duration' "$logs/ncu.txt" || status=1
  done
  return $status
}

[ "${BASH_SOURCE[0]}" != "$0" ] || {
  set -uo pipefail
  "$1"
}
