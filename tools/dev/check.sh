#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev check [--full] [--after-test]: what CI runs. --full adds packages and programs that compile the library, a shared library for a further level of processors, a library without trainers, 10,000 steps of
# stress, campaigns against processes, larger searches of the model, the tests that need PyTorch, asynchronous streams without sanitizers, sanitizers for the remaining suites, backend/ and its tests compiled
# for AArch64, a build of everything with clang, a minute of each fuzzer, and clang-tidy; --after-test leaves out what `./dev test` has just run. The last line sums test cases and single checks.
set -uo pipefail
. tools/dev/build.sh

full=0
after_test=0
for option in "$@"; do
  case $option in
    --full) full=1 ;;
    --after-test) after_test=1 ;;
    *)
      echo "check: unknown option '$option'; there are --full and --after-test" >&2
      exit 2
      ;;
  esac
done

groups="build test bench check mpi python report docs"
[ $full -eq 0 ] || groups="$groups tidy torch package aarch64"
! { command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } >/dev/null || groups="$groups kernels"
# shellcheck disable=SC2086  # one word each
tools/setup.sh $groups || exit 1
# A browser is large, and another one every week: where there is none to install, its tests count as skipped.
tools/setup.sh browser || true

passed=0 failed=0 skipped=0
failed_stages=()
output=$(mktemp)
# What stages took in the last run of all, for tools/stage_progress.py, and in this one.
kept=build/check-seconds$([ $full -eq 0 ] || echo -full)
taken=$(mktemp)
trap 'rm -f "$output" "$taken"' EXIT

# stage NAME COMMAND...: counts as one check, unless it ends with a closing line of its own.
stage() {
  local name=$1 started=$SECONDS status
  shift
  echo "== $name"
  "$@" 2>&1 | tools/stage_progress.py "$kept" "$name" "$output"
  status=${PIPESTATUS[0]}
  if [[ $(tail -n 1 "$output") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2])) skipped=$((skipped + BASH_REMATCH[3]))
    [ "$status" -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] || failed=$((failed + 1))
  elif [ "$status" -eq 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
  [ "$status" -eq 0 ] || failed_stages+=("$name")
  echo "$((SECONDS - started)) $name" >>"$taken"
  echo "-- $name: $([ "$status" -eq 0 ] && echo ok || echo FAILED) in $((SECONDS - started)) s"
  return "$status"
}

# has_time NAME PERCENT: whether what takes so much of the time that all before took until the first call ends before
# TUTTI_CHECK_UNTIL (seconds of the epoch; .ci/run sets it and TUTTI_CHECK_BEGAN); what does not is told, and counts as
# skipped. Without them there is time for all.
left_out=()
until_now=""
has_time() {
  local now needed
  [ -n "${TUTTI_CHECK_UNTIL:-}" ] || return 0
  now=$(date +%s)
  until_now=${until_now:-$((now - TUTTI_CHECK_BEGAN))}
  needed=$((until_now * $2 / 100))
  [ $((now + needed)) -gt "$TUTTI_CHECK_UNTIL" ] || return 0
  echo "-- $1: left out, it takes about $needed s here, and $((TUTTI_CHECK_UNTIL - now)) s are left"
  left_out+=("$1")
  skipped=$((skipped + 1))
  return 1
}

project_sources() {
  find bench.h c_api.h tutti.h version.h bench testing library backend autodiff nn exchange onnx optim distributed train c_api command examples tests benches -name '*.h' -o -name '*.cpp' -o -name '*.c' | sort
}

check_format() {
  local unformatted
  unformatted=$(project_sources | xargs clang-format-16 --dry-run 2>&1 | sed -n 's/:[0-9]*:[0-9]*: warning: .*//p' | uniq)
  [ -z "$unformatted" ] || {
    echo "$unformatted"
    echo "these differ from .clang-format; run clang-format-16 -i on them"
    return 1
  }
}

# Also what only ./dev gpu --pack builds: the program of all device tests.
build_release() {
  configure_release && compile "$release" all device_programs
}

# Everywhere else CUDA is built where its toolkit is found. Here nothing is left out without a word.
cuda_was_built() {
  grep -q -- '-DTUTTI_CUDA_LINKED' "$release/build.ninja" && grep -q -- '-DTUTTI_HAVE_NCCL' "$release/build.ninja" && return
  echo "$release has no CUDA devices: the check needs the CUDA toolkit (nvcc, cuBLASLt) and NCCL"
  return 1
}

mpi_was_built() {
  grep -q 'tutti_mpi\.so' "$release/build.ninja" && command -v mpirun >/dev/null && return
  echo "$release has no plugin for MPI, or there is no mpirun: the check needs libopenmpi-dev and openmpi-bin"
  return 1
}

check_kernels() {
  local PATH=$PATH folder
  for folder in "$PWD"/build/kernels/lib/python3*/site-packages/nvidia/cu*/bin; do PATH=$PATH:$folder; done
  if command -v cuobjdump >/dev/null && command -v nvdisasm >/dev/null; then
    tools/kernels/kernel_report.py "$release" --check
    return
  fi
  echo "cuobjdump or nvdisasm is missing (of the CUDA toolkit; nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm of PyPI)"
  echo "0 passed, 0 failed, 1 skipped"
}

# Its documents and links, with what the small site of the self-test has wrong.
build_docs() {
  if [ -x build/docs/bin/python3 ]; then
    build/docs/bin/python3 tools/documents/build_site_self_test.py && build/docs/bin/python3 tools/documents/build_site.py
    return
  fi
  echo "MkDocs of PyPI could not be installed in build/docs"
  echo "0 passed, 0 failed, 1 skipped"
}

# reconfigured FOLDER OPTION...: what was compiled there stays, and what both ways have in common is not compiled again.
reconfigured() {
  local folder=$1
  shift
  meson configure "$folder" "$@" >"$folder.reconfigured.log" 2>&1 && ninja -C "$folder" build.ninja >>"$folder.reconfigured.log" 2>&1 ||
    show_failure "$folder.reconfigured.log" meson configure "$folder" "$@"
}

# From the same objects, for programs of others; with --full also a level of processors above it.
build_shared() {
  reconfigured "$release" -Ddefault_library=both -Dcpu_levels="$1" && compile "$release"
}

# Programs of others use a library that is optimised as a whole.
build_with_lto() {
  configure build/lto -Db_lto=true -Ddefault_library=shared -Dcuda=disabled -Dtests=false -Dbenches=false -Dexamples=false &&
    compile build/lto && tools/dev/consumers.sh build/lto
}

# From the sources that are committed; programs of others use what they hold.
build_packages() {
  local folder status=0
  folder=$(mktemp -d)
  mkdir "$folder/tutti" && git archive HEAD | tar -x -C "$folder/tutti" &&
    (cd "$folder/tutti" && dpkg-buildpackage -b -us -uc) && mkdir "$folder/root" &&
    for each in "$folder"/*.deb; do dpkg -x "$each" "$folder/root" || status=1; done &&
    rm -rf "$folder/tutti" && tools/dev/consumers.sh "$folder/root" || status=1
  rm -rf "$folder"
  return $status
}

# The library without trainers, from the objects that there are, installed, and a program that includes all of it; without
# the recommender, configured.
use_without_trainers() {
  local folder=build/asan prefix=$PWD/build/without_trainers.installed status=0
  reconfigured "$folder" -Dtrain=false -Dtests=false -Dprefix="$prefix" && compile "$folder" && install_and_use "$folder" "$prefix" || status=1
  rm -rf "$prefix"
  reconfigured "$folder" -Dtrain=true -Dtests=true -Dprefix=/usr/local || status=1
  configure_without_cuda build/without_recommender -Dexamples=false -Drecommender=false && return $status
}

install_and_use() {
  local folder=$1 prefix=$2
  local -x PKG_CONFIG_PATH
  rm -rf "$prefix"
  meson install -C "$folder" --no-rebuild --quiet || return
  PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tutti.pc)")
  # shellcheck disable=SC2046  # one word each
  printf '#include <tutti/tutti.h>\nint main() { return tutti::sum(tutti::ones({3})).item<float>() == 3.0F ? 0 : 1; }\n' |
    clang++-16 -std=c++20 -fsanitize=address,undefined -x c++ - -o "$prefix/program" $(pkg-config --cflags --libs tutti) &&
    "$prefix/program"
}

# Prefer the level that packages are built for, so that it is tested too.
sanitizer_arch() {
  if grep -q -w avx2 /proc/cpuinfo && grep -q -w fma /proc/cpuinfo; then echo x86-64-v3; else echo native; fi
}

# build_sanitized FOLDER SANITIZERS TARGET...: tests only, assertions on, warnings are errors. By clang, which needs half of
# GCC's time for it, with LLVM's linker, which needs a third of the other's; with GCC everything is compiled as a release.
# What precompiled headers instantiate is compiled with them, which takes a fifth of the time off their sources. At -O1: with
# -O0 compiling takes half as long, and distributed_test more than the 600 s that it has.
build_sanitized() {
  local folder=$1 sanitizers=$2
  shift 2
  # shellcheck disable=SC2086  # one word each
  CXX="$(command -v ccache) clang++-16" CXX_LD=lld-16 configure "$folder" -Db_sanitize="$sanitizers" -Dwerror=true --buildtype=debugoptimized \
    -Doptimization=1 -Ddebug=false -Dcpp_args="-g1 -fno-omit-frame-pointer -fno-sanitize-recover=all -fpch-instantiate-templates" \
    -Db_lundef=false -Dcuda=disabled -Dexamples=false -Dbenches=false -Dcpu_arch="$(sanitizer_arch)" $merged &&
    compile "$folder" "$@"
}

# What uses memory in the order of streams: tested under sanitizers with asynchronous ones, where all that goes wrong
# without them does, too.
stream_tests=(backend_test autodiff_test nn_test optim_test distributed_test train_test)
# What knows no streams, and mostly waits: beside the former.
waiting_tests=(control_test command_test)
# What runs under ASan and UBSan with streams that are done at once. References of operations, which the tests of these
# compute as well, searches of the ledger, kernels on the host, which watch their memory themselves, and the comparison of
# devices take longer there than all else: with --full, which tests everything in both ways.
memory_tests=(exchange_test bench_test onnx_test c_api_test)
# Under TSan, with asynchronous streams: whose code starts threads, or hands work from one to another; and the trainers. The
# other suites compute on what these test.
threaded_tests=(backend_test distributed_test control_test)
if [ $full -eq 1 ]; then
  memory_tests+=("${stream_tests[@]}" references_test ledger_test kernels_test comparison_test)
  threaded_tests+=(autodiff_test nn_test optim_test)
fi

# TSan cannot map its shadow under some randomised layouts; not every container lets a process switch that off.
fixed_layout=""
! setarch -R true 2>/dev/null || fixed_layout="setarch -R"
# run_thread_sanitized TEST...
run_thread_sanitized() {
  tools/run_tests.py build/tsan --wrapper "$fixed_layout" --only "$*"
}

# Without it, those tests would be skipped.
run_with_torch() {
  local python=$PWD/build/torch/bin/python3
  "$python" -c 'import safetensors.torch' && TUTTI_PYTHON=$python tools/run_tests.py "$release" --filter PyTorch
}

# With headers of libraries alone, which are the same for all processors.
build_aarch64() {
  local headers=$PWD/build/aarch64.headers
  mkdir -p "$headers" && ln -sfn -t "$headers" /usr/include/{eigen3,fmt,CLI,nlohmann} || return
  # shellcheck disable=SC2086  # one word each
  configure build/aarch64 --cross-file tools/cross/aarch64.ini -Dheaders="$headers" -Dwerror=true -Dcuda=disabled \
    -Dprocesses=disabled -Dmpi=disabled -Dbenches=false -Dexamples=false $merged &&
    compile build/aarch64 tests/backend_test
}

run_tidy() {
  sed -n 's/.*"file": "\(.*\)".*/\1/p' build/clang/compile_commands.json | sort -u |
    (cd build/clang && xargs -P "$(nproc)" -n 1 clang-tidy-16 --quiet -p .) 2>&1 | sed '/warnings generated\.$/d'
}

# Without precompiled headers: each source has to include what it uses.
build_clang() {
  CXX="$(command -v ccache) clang++-16" configure build/clang -Dwerror=true -Db_pch=false && compile build/clang
}

export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="second_deadlock_stack=1 suppressions=$PWD/tools/tsan_suppressions.txt"

stage "layers" tools/check_layers.py
stage "layers, self-test" tools/check_layers.py --self-test
stage "comments in headers" tools/check_comments.py
stage "comments in headers, self-test" tools/check_comments_self_test.py
stage "docs/operations.md" tools/operations/operation_coverage.py --check
stage "docs/operations.md, self-test" tools/operations/operation_coverage_self_test.py
stage "GPU results, self-test" tools/gpu_results_self_test.py
stage "./dev gpu, self-test" tools/gpu_stages_self_test.py
stage "report on CUDA kernels, self-test" tools/kernels/kernel_report_self_test.py
stage "running tests, self-test" tools/run_tests_self_test.py
stage "running test cases, self-test" tools/run_test_cases_self_test.py
stage "merging tests, self-test" tools/compiling/merge_tests_self_test.py
stage "benches, self-test" tools/bench_self_test.py
stage "reports" tests/command/report/report_test.py
stage "reports, what they read" tests/command/report/reading_test.py
stage "reports in a browser" tests/command/report/browser_test.py
stage "benches beside other libraries, self-test" benches/peers/peers_self_test.py
stage "progress of compiling and testing, self-test" tools/progress_self_test.py
stage "./dev, self-test" tools/dev_self_test.py
stage "figures of docs/clusters.md" tools/clusters/simulate_cluster.py --check docs/clusters.md
stage "figures of docs/clusters.md, self-test" tools/clusters/simulate_cluster_self_test.py
stage "campaigns, self-test" tests/campaigns/campaigns_self_test.py
stage "comments in the reference, self-test" tools/documents/header_comments_self_test.py
stage "documentation site" build_docs
stage "C++ in documents" tools/documents/doc_examples.py --check
stage "C++ in documents, self-test" tools/documents/doc_examples_self_test.py
stage "other code in documents" tools/documents/other_examples.py --check
stage "other code in documents, self-test" tools/documents/other_examples_self_test.py
stage "include paths" tools/include_paths.py --check
stage "include paths, self-test" tools/include_paths.py --self-test
stage "what hosts may rely on" tools/host_rules.py --check
stage "what hosts may rely on, self-test" tools/host_rules.py --self-test
stage "binary interface of the C API" tools/c_abi.py --check
stage "binary interface of the C API, self-test" tools/c_abi.py --self-test
stage "releases, self-test" tools/release_self_test.py
stage "format" check_format
if stage "build, GCC" build_release; then
  stage "CUDA was built" cuda_was_built && stage "loads and registers of CUDA kernels" check_kernels
  stage "MPI was built" mpi_was_built
  stage "what documents print" tools/documents/doc_examples.py --run "$release/tests/documents/document_printing"
  stage "include paths, installed" tools/include_paths.py --check "$release"
  stage "a shared library, too" build_shared "$([ $full -eq 0 ] || echo x86-64-v3)" && stage "programs of others" tools/dev/consumers.sh "$release"
  stage "added operations, as docs/guides/adding-an-operation.md says" tools/added_operation.py "$release"
  [ $after_test -eq 1 ] || stage "tests, GCC" tools/run_tests.py "$release"
  # In CI under sanitizers alone.
  [ $full -eq 0 ] || stage "tests, GCC, asynchronous streams" env TUTTI_CPU_ASYNC=1 \
    tools/run_tests.py "$release" --only "${stream_tests[*]} comparison_test references_test examples_test"
  stage "tests, GCC, on devices of another kind" tools/run_tests.py "$release" --device foreign
  # shellcheck disable=SC2046  # one word or none
  stage "model of the server" tools/dev/model.sh $([ $full -eq 0 ] || echo --full)
fi
# The percentages are estimates of what each takes beside all above (docs/performance.md, "Building the library").
if has_time "TSan" 25 && stage "build, TSan" build_sanitized build/tsan thread "${threaded_tests[@]/#/tests/}"; then
  [ $full -eq 0 ] || stage "tests, TSan" run_thread_sanitized "${threaded_tests[@]}"
  TUTTI_CPU_ASYNC=1 stage "tests, TSan, asynchronous streams" run_thread_sanitized "${threaded_tests[@]}"
fi
if has_time "ASan and UBSan" 65 && stage "build, ASan and UBSan" build_sanitized build/asan address,undefined "${memory_tests[@]/#/tests/}" "${stream_tests[@]/#/tests/}" "${waiting_tests[@]/#/tests/}"; then
  stage "tests, ASan and UBSan" tools/run_tests.py build/asan --only "${memory_tests[*]}"
  stage "tests, ASan and UBSan, asynchronous streams" env TUTTI_CPU_ASYNC=1 \
    tools/run_tests.py build/asan --only "${stream_tests[*]} ${waiting_tests[*]}"
  [ $full -eq 0 ] || stage "a library without trainers" use_without_trainers
fi
if has_time "TSan, trainers" 16 && stage "build, TSan, trainers" build_sanitized build/tsan thread tests/train_test; then
  [ $full -eq 0 ] || stage "tests, TSan, trainers" run_thread_sanitized train_test
  TUTTI_CPU_ASYNC=1 stage "tests, TSan, trainers, asynchronous streams" run_thread_sanitized train_test
fi
if [ $full -eq 1 ]; then
  stage "programs of others that compile the library" tools/dev/consumers.sh "$release" subproject_compiled external
  stage "packages" build_packages
  stage "a library with link-time optimisation" build_with_lto
  TUTTI_STRESS_STEPS=10000 stage "stress, 10,000 steps" "$release/tests/distributed_test" -tc='stress*'
  stage "campaign: processes that end" tests/campaigns/ended_processes.py
  stage "campaign: strangers" tests/campaigns/strangers.py
  stage "campaign: false accusations" tests/campaigns/false_accusations.py
  stage "tests, beside PyTorch" run_with_torch
  stage "docs/operations.md, functions of PyTorch" build/torch/bin/python3 tools/operations/operation_coverage.py --check
  stage "build, AArch64" build_aarch64
  if stage "build, clang" build_clang; then
    stage "fuzzers" tools/dev/fuzz.sh 60
    stage "clang-tidy" run_tidy
  fi
fi

echo
for name in "${left_out[@]}"; do echo "left out, for want of time: $name"; done
for name in "${failed_stages[@]}"; do echo "failed stage: $name"; done
echo "$passed passed, $failed failed, $skipped skipped"
[ ${#failed_stages[@]} -eq 0 ] && cp "$taken" "$kept"
