#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What ./dev gpu does, stage by stage: a function each, with `headers`, `output` and `device` in the environment.
# Sourced by tools/dev/gpu.sh, which runs each stage as a process of its own: gpu_stages.sh STAGE.

# shellcheck disable=SC2154 # headers, output and device come from gpu.sh
build=build/gpu
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

# Libraries by the name that a linker looks for: Python's packages and machines without -dev packages have others.
link_libraries() {
  local folder=$PWD/$build.libraries name file
  for name in nccl cudnn cublas cublasLt cusolver z; do
    echo 'int main() {}' | g++ -x c++ - -o /dev/null -L"$cuda/lib64" "-l$name" 2>/dev/null && continue
    file=$(compgen -G "$headers/lib/lib$name.so*" || compgen -G "$(python_package "nvidia.$name")/lib/lib$name.so*" ||
      compgen -G "$(python_package nvidia.cu13)/lib/lib$name.so*" || compgen -G "/usr/lib/*/lib$name.so*" ||
      compgen -G "/lib/*/lib$name.so*")
    file=${file%%$'\n'*}
    [ -n "$file" ] || continue
    file=$(readlink -f "$file")
    ln -s "$file" "$folder/lib$name.so"
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$file")
  done
  export LIBRARY_PATH=$folder${LIBRARY_PATH:+:$LIBRARY_PATH}
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$cuda/lib64
}

# Of Python's packages single headers only: beside them lie those of another CUDA.
link_headers() {
  local folder=$PWD/$build.libraries/include file
  mkdir -p "$folder"
  for file in "$(python_package nvidia.nccl)"/include/nccl*.h "$(python_package nvidia.cudnn)"/include/cudnn*.h \
    "$(python_package nvidia.cu13)"/include/cu{blas,solver}*.h; do
    [ ! -f "$file" ] || [ -f "$cuda/include/${file##*/}" ] || [ -f "/usr/include/${file##*/}" ] || ln -s "$file" "$folder"
  done
  for folder in "$folder" ${headers:+"$headers" "$headers/include" "$headers/eigen3" "$headers/include/eigen3"}; do
    [ ! -d "$folder" ] || export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$folder
  done
}

find_dependencies() {
  export callers_libraries=${LD_LIBRARY_PATH:-}
  if [ -d "$headers/python" ]; then
    export PATH=$headers/python/bin:$PATH PYTHONPATH=$headers/python${PYTHONPATH:+:$PYTHONPATH}
  fi
  rm -rf "$PWD/$build.libraries"
  link_headers
  link_libraries
}

# --- the stages

build() {
  local architecture folder=""
  for folder in ${headers:+"$headers/include" "$headers"}; do [ ! -d "$folder/fmt" ] || break; done
  architecture=$(python3 tools/gpu_results.py --architecture) || architecture=90
  if [ ! -f $build/build.ninja ]; then
    for program in meson ninja g++ nvcc; do
      command -v $program >/dev/null || echo "$program is missing: see --headers in tools/dev/gpu.sh"
    done
    meson setup $build --buildtype=release -Dcuda=enabled -Dnccl=enabled -Dcpu_arch=native -Dexamples=false \
      -Dgpu_arch="$architecture" -Dheaders="$folder" || return
  fi
  ninja -k 0 -C $build device_test_executables gpu_bench_executables # what compiles is tested, whatever does not
}

tests() {
  tools/run_tests.py $build --device "$device" --any-device --leave-out nccl_ranks_test --timeout 60 --report "$output/tests.json"
}

ranks() {
  TUTTI_RANKS_REPORT=$output/ranks.json tools/run_tests.py $build --device "$device" --any-device --filter 'ranks:' \
    --timeout 85 || return
  [ -s "$output/ranks.json" ] || return $not_here # they were skipped
}

benches() {
  local bench=$build/benches/cuda/gpu_bench sizes=() steps=200
  [ "$device" != cpu ] || sizes=(--bytes 65536 --size 64 --seconds 0.002) steps=3
  run_bench() { "$bench" --device "$device:0" --only "$1" --output "$output/$2.json" ${sizes[@]+"${sizes[@]}"} --steps $steps; }
  run_bench matmul matmul
  local status=$?
  TUTTI_CUDA_TF32=1 run_bench matmul matmul_tf32 || status=1
  run_bench training training || status=1
  run_bench memory memory || status=1
  return $status
}

torch() {
  local steps=200
  [ "$device" != cpu ] || steps=3
  # With the libraries that it came with.
  LD_LIBRARY_PATH=$callers_libraries python3 benches/peers/torch_eager.py --device "$device" --steps $steps --output "$output/torch.json"
}

# Over the comparison of devices, which runs every kernel on small arrays.
sanitize() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer is not installed"
    return $not_here
  fi
  TUTTI_TEST_DEVICE=$device compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 20 \
    $build/tests/comparison_test -tc='comparison: reductions*,comparison: matrix*,comparison: optimizer*'
}

memcheck() { sanitize memcheck; }

racecheck() { sanitize racecheck; }

[ "${BASH_SOURCE[0]}" != "$0" ] || {
  set -uo pipefail
  "$1"
}
