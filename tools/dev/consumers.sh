#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/dev/consumers.sh BUILD [NAME...]: installs what lies in the build folder, or takes what was unpacked there, and builds and runs programs of somebody else
# against it, outside of this tree: tests/consumers; all, or those of these names. Those that compile the library themselves,
# `external` and `subproject_compiled`, take minutes, and run by their names alone. The last line counts them.
set -uo pipefail

unset TUTTI_CALLED_FROM # of ./dev: files are those of here
build=$(readlink -f "$1")
shift
wanted=" $* "
sources=$PWD/tests/consumers
examples=$PWD/examples/c_api
python=$PWD/build/python/bin/python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
begun=() skipped=0

# consumer NAME COMMAND...: begins it in a folder of its own, as many at a time as there are cores.
consumer() {
  local name=$1
  shift
  [ "$wanted" = "  " ] || [[ $wanted == *" $name "* ]] || return 0
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  begun+=("$name")
  run_consumer "$name" "$@" &
}

run_consumer() {
  local name=$1 started=$SECONDS
  shift
  mkdir -p "$work/$name"
  if (cd "$work/$name" && "$@") >"$work/$name.log" 2>&1; then
    touch "$work/$name.passed"
    echo "$name: ok in $((SECONDS - started)) s"
  else
    echo "$name: FAILED"$'\n'"$(tail -n 40 "$work/$name.log")"
  fi
}

if [ ! -d "$build/meson-info" ]; then
  cp -a "$build" "$work/root"
elif ! meson install -C "$build" --no-rebuild --destdir "$work/root" >"$work/install.log" 2>&1; then
  tail -n 20 "$work/install.log"
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
# It was configured for another prefix: the files have been moved, as a package's would be.
library=$(dirname "$(find "$work/root" -name 'libtutti.so.*' -not -path '*/glibc-hwcaps/*' | head -n 1)")
export PKG_CONFIG_PATH=$library/pkgconfig LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export CMAKE_PREFIX_PATH=${library%/lib*}

# shown DOCUMENT LANGUAGE [HEADING]: the blocks of that language in docs/DOCUMENT, or of what follows the heading there.
shown() {
  sed -n "/^${3:-}/,\$p" "$sources/../../docs/$1" | sed -n "/^\`\`\`$2\$/,/^\`\`\`\$/p" | sed '/^```/d'
}

with_pkg_config() {
  # shellcheck disable=SC2046  # one word each
  "$@" "$sources/program.cpp" -o program $(pkg-config --cflags --libs tutti) && ./program
}

# The package says no standard; who forgets it is told.
with_an_old_standard() {
  # shellcheck disable=SC2046  # one word each
  ! g++ -std=c++17 -fsyntax-only -fmax-errors=1 "$sources/program.cpp" $(pkg-config --cflags tutti) 2>output && grep 'error:.*Tutti needs C++20' output
}

statically() {
  # shellcheck disable=SC2046  # one word each
  g++ -std=c++20 "$sources/program.cpp" -o program $(pkg-config --cflags --libs tutti-static) && ./program && ldd program >linked &&
    ! grep libtutti linked
}

with_cmake() {
  cmake -S "$sources/cmake" -B . && cmake --build . && ./consumer
}

# What docs/guides/embedding.md shows of CMake and of Meson.
as_embedding_shows() {
  { printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(program CXX)' "add_executable(program $sources/program.cpp)" &&
    shown guides/embedding.md cmake; } >CMakeLists.txt
  grep -q '^target_link_libraries' CMakeLists.txt && cmake -S . -B by_cmake && cmake --build by_cmake && ./by_cmake/program || return
  cp "$sources/program.cpp" .
  { echo "project('program', 'cpp', default_options: ['cpp_std=c++20'])" && shown guides/embedding.md meson &&
    echo "executable('program', 'program.cpp', dependencies: tutti_dep)"; } >meson.build
  meson setup by_meson && ninja -C by_meson && ./by_meson/program
}

# The package of a build without a shared library, made of this one's, after a move.
with_cmake_statically() {
  mkdir moved && cp -r "${library%/lib*}/lib" "${library%/lib*}/include" moved/ || return
  local moved=moved/lib${library##*/lib}
  sed -i 's/if(TRUE)/if(FALSE)/' "$moved/cmake/Tutti/TuttiConfig.cmake" && rm "$moved"/libtutti.so* &&
    sed 's/-l:libtutti.a/-ltutti/' "$moved/pkgconfig/tutti-static.pc" >"$moved/pkgconfig/tutti.pc" || return
  env -u PKG_CONFIG_PATH CMAKE_PREFIX_PATH="$PWD/moved" cmake -S "$sources/cmake" -B build &&
    cmake --build build && ./build/consumer && ldd build/consumer >linked && ! grep libtutti linked
}

# What is not there is told, and which version.
with_cmake_in_vain() {
  sed 's/COMPONENTS testing/COMPONENTS fortran/' "$sources/cmake/CMakeLists.txt" >CMakeLists.txt
  ! cmake -S . -B build >output 2>&1 && grep -q 'without the component fortran' output || return
  sed 's/Tutti 0.1/Tutti 9.1/' "$sources/cmake/CMakeLists.txt" >CMakeLists.txt
  ! cmake -S . -B other >output 2>&1 && grep -q 'version: 0.1' output
}

with_meson() {
  meson setup . "$sources/meson" && ninja && ./consumer
}

# Trains in the background of an event loop, and is cancelled: what docs/guides/embedding.md shows.
in_an_event_loop() {
  shown guides/embedding.md cpp '## A whole program' >event_loop.cpp
  # shellcheck disable=SC2046  # one word each
  g++ -std=c++20 -Wall -Wextra -Werror event_loop.cpp -o event_loop $(pkg-config --cflags --libs tutti) &&
    timeout 60 ./event_loop
}

# Trains in memory and on threads of its own.
with_own_resources() {
  # shellcheck disable=SC2046  # one word each
  g++ -std=c++20 -Wall -Wextra -Werror "$sources/own_resources.cpp" -o own_resources $(pkg-config --cflags --libs tutti) &&
    timeout 60 ./own_resources && TUTTI_CPU_ASYNC=1 timeout 60 ./own_resources
}

# Operations, an optimizer, a hook and a kind of device from outside of the tree; their kernels for CUDA where nvcc is, and
# the source for it that docs/guides/custom-operation.md shows.
with_an_extension() {
  local nvcc
  # shellcheck disable=SC2046  # one word each
  g++ -std=c++20 -Wall -Wextra -Werror "$sources/extension.cpp" -o extension $(pkg-config --cflags --libs tutti) && ./extension &&
    TUTTI_CPU_ASYNC=1 ./extension || return
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || return 0
  # shellcheck disable=SC2046  # one word each
  "$nvcc" -std=c++20 --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Werror $(pkg-config --cflags-only-I tutti) -c "$sources/extension.cu" -o cuda.o &&
    g++ -std=c++20 -Wall -Wextra -Werror -DWITH_CUDA "$sources/extension.cpp" cuda.o -o with_cuda $(pkg-config --cflags --libs tutti) \
      -L"$(dirname "$nvcc")/../lib64" -lcudart_static -ldl -lrt -lpthread && ./with_cuda || return
  { echo '#include <tutti/backend/elementwise/operation.h>' && shown guides/custom-operation.md cpp | sed -n '/^struct Bump/,/^};/p'; } >bump.h
  shown guides/custom-operation.md cuda >bump.cu
  # shellcheck disable=SC2046  # one word each
  [ -s bump.cu ] && "$nvcc" -std=c++20 --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Werror $(pkg-config --cflags-only-I tutti) -c bump.cu -o bump.o
}

# An engine and a kind of device, which the library's suites check.
with_conformance() {
  # shellcheck disable=SC2046  # one word each
  g++ -std=c++20 -Wall -Wextra -Werror "$sources/conformance.cpp" -o conformance $(pkg-config --cflags --libs tutti-testing) && ./conformance
}

# What docs/guides/benchmarks.md shows, its runs compared, and the library's own benches where they are installed.
with_benchmarks() {
  local tutti=${library%/lib*}/bin/tutti
  shown guides/benchmarks.md cpp >bench.cpp
  # shellcheck disable=SC2046  # one word each
  [ -s bench.cpp ] && g++ -std=c++20 -O2 -Wall -Wextra -Werror bench.cpp -o bench $(pkg-config --cflags --libs tutti) || return
  ./bench --seconds 0.002 --json old.json && ./bench --seconds 0.002 --history runs --label new || return
  "$tutti" bench compare --gate 1000 old.json runs/*.json && "$tutti" bench history runs >history || return
  grep -q 'new .* of its baseline' history || return
  if [ -e "${library%/lib*}/libexec/tutti/bench/machine_limits" ]; then
    "$tutti" bench '^exp/16384$' --benchmark_min_time=0.01 --benchmark_repetitions=4 --output own && "$tutti" bench compare own/*.json own/*.json
  else
    ! "$tutti" bench >output 2>&1 && grep -q 'are installed where' output
  fi
}

# A page by what is installed alone, with the plotting library where it was found.
with_reports() {
  local tutti=${library%/lib*}/bin/tutti
  echo '{"iteration":1,"loss":2}' >metrics.jsonl
  if "$tutti" report . 2>output; then
    grep -q 'Permission is hereby granted' report.html
  else
    [ ! -e "${library%/lib*}/libexec/tutti/report/dygraph.min.js" ] && grep -q 'Debian: libjs-dygraphs' output
  fi
}

# Of two compilers, one of which marks no variable as the only one of a process.
as_plugins() {
  local name compiler=g++
  for name in one other; do
    # shellcheck disable=SC2046  # one word each
    "$compiler" -std=c++20 -shared -fPIC "$sources/plugin/plugin.cpp" -o "$name.so" $(pkg-config --cflags --libs tutti) || return
    compiler=clang++-16
  done
  gcc -std=c11 "$sources/plugin/host.c" -o host -ldl && ./host ./one.so ./other.so || return
  [ -e "$library/libtutti.a" ] || return 0
  # One that has the library in it keeps it to itself.
  # shellcheck disable=SC2046  # one word each
  g++ -std=c++20 -shared -fPIC "$sources/plugin/plugin.cpp" -o whole.so $(pkg-config --cflags --libs tutti-static) &&
    ./host ./whole.so ./one.so && nm -D --defined-only whole.so >exported && [ -s exported ] &&
    ! c++filt <exported | grep -E 'Eigen::|fmt::|tutti::CpuBackend'
}

# As a subproject it builds the library, and none of its tests, benches and examples.
as_subproject() {
  mkdir -p source/subprojects && ln -s "${sources%/tests/consumers}" source/subprojects/tutti
  cp "$sources/meson/meson.build" "$sources/program.cpp" source/ && sed -i "s|'../program.cpp'|'program.cpp'|; s|version: '>= 0.1'|fallback: 'tutti'|" source/meson.build
  PKG_CONFIG_PATH='' meson setup build source -Dtutti:cuda=disabled --force-fallback-for=tutti || return
  grep -q 'WARNING: Tutti is compiled without optimisation' build/meson-logs/meson-log.txt || return
  ninja -C build -t targets all | cut -d: -f1 >targets
  [ -s targets ] && ! grep -E '(^|/)(tests|benches|examples|command)/' targets
}

as_compiled_subproject() {
  as_subproject && ninja -C build && ./build/consumer
}

# Made by the program's own build, which is CMake's.
as_external_project() {
  cmake -S "$sources/external" -B build && cmake --build build && ./build/consumer
}

# By the C API alone, which programs find without a word of C++; also what docs/c-api.md shows.
in_c() {
  local source
  shown c-api.md c >document.c
  [ -s document.c ] || return
  for source in document.c "$examples/train_mlp.c"; do
    # shellcheck disable=SC2046  # one word each
    gcc -std=c11 -Wall -Wextra -Wpedantic -Werror "$source" -o program $(pkg-config --cflags --libs tutti-c) &&
      ./program model.safetensors && [ -s model.safetensors ] && rm model.safetensors || return
  done
  # shellcheck disable=SC2046  # one word each
  echo '#include <tutti/c_api.h>' | g++ -std=c++98 -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags tutti-c) -x c++ -
}

# A project of C alone finds the shared library by CMake, too.
in_c_with_cmake() {
  printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(consumer LANGUAGES C)' 'find_package(Tutti 0.1 CONFIG REQUIRED)' \
    "add_executable(consumer $examples/train_mlp.c)" 'target_link_libraries(consumer PRIVATE Tutti::tutti)' >CMakeLists.txt
  cmake -S . -B build && cmake --build build && ./build/consumer
}

in_two_processes_in_c() {
  local port=$((20000 + RANDOM % 10000))
  # shellcheck disable=SC2046  # one word each
  gcc -std=c11 -Wall -Wextra -Wpedantic -Werror "$sources/c_processes.c" -o processes $(pkg-config --cflags --libs tutti-c) || return
  both_processes "$port" || return
  [ "$(head -n 1 0)" = "device 0 of 2" ] && [ "$(head -n 1 1)" = "device 1 of 2" ] && diff <(tail -n +2 0) <(tail -n +2 1)
}

in_python() {
  "$python" "$examples/train_numpy.py"
}

# Names of this library's, the functions of its C API, and none of those that it is made with.
exports_its_own_alone() {
  nm -D --defined-only "$library"/libtutti.so | awk '{ print $3 }' >symbols
  [ -s symbols ] || return
  grep -v '^_Z' symbols | sort >functions
  grep -o -E 'tutti_[a-z_]+\(' "${library%/lib*}/include/tutti/c_api.h" | tr -d '(' | sort -u >declared
  [ -s declared ] && diff declared functions || return
  # What the package's list of symbols says, which an unknown one fails.
  (cd "${sources%/tests/consumers}" && dpkg-gensymbols -plibtutti0.1 -Pno-package -e"$library"/libtutti.so.0.1 -v0.1.0 \
    -Idebian/libtutti0.1.symbols -O/dev/null -c4) || return
  # Of C++ plugins, too, export what lies in the namespace tutti alone.
  nm -D --defined-only "$library"/tutti-*/libtutti_*.so | awk 'NF == 3 { print $3 }' >>symbols
  ! grep '^_Z' symbols | grep -v -E '^_Z(TI|TS|TV|TT|GV|TH|TW|Thn?[0-9]+_|Tv[0-9n_]+_)?Z?N[KOR]*5tutti' || return
  ! c++filt <symbols | grep -E 'Eigen::|nlohmann' || return
  [ -e "$library/libtutti.a" ] || return 0
  # What the static library gives to programs, and the shared one has and hides.
  nm --defined-only "$library"/libtutti.a | awk '$2 ~ /^[TDBR]$/ && $3 ~ /5tutti/ { print $3 }' | sort -u >given
  nm --defined-only "$library"/libtutti.so | awk '$2 ~ /^[tdbr]$/ { print $3 }' | sort -u >hidden
  [ -s given ] && [ -s hidden ] && ! comm -12 given hidden | grep .
}

# Public headers include none of the libraries that this one is made with, but for the one that is fmt's.
includes_its_own_alone() {
  grep -v '^backend/raise.h$' "$sources/../documents/include_paths.txt" >paths.txt
  "$sources/../../tools/include_paths.py" --source paths.txt all.cpp || return
  # shellcheck disable=SC2046  # one word each
  g++ -std=c++20 -M all.cpp $(pkg-config --cflags tutti) >included || return
  grep -q 'tutti/nn' included && ! grep -E '/(fmt|Eigen|CLI|nlohmann|oneapi|sodium)/|/(zmq|mpi|zlib|cuda_runtime).h' included
}

starts_without_cuda() {
  # shellcheck disable=SC2046  # one word each
  g++ -std=c++20 "$sources/program.cpp" -o program $(pkg-config --cflags --libs tutti) || return
  ldd program "$library"/libtutti.so >linked || return
  ! grep -i -E 'cuda|cublas|cufft|cusolver|cudnn|nccl|mpi|zmq|sodium' linked || return
  # It says what is missing, and where it was looked for.
  [[ $(TUTTI_PLUGINS=/nowhere ./program cuda) == *"there is no libtutti_cuda.so in /nowhere"* ]] || return
  ./program cuda  # whatever this machine has
}

# both_processes PORT: runs ./processes as ranks 0 and 1, which write to the files 0 and 1; both have to end well, in time.
both_processes() {
  local rank status=0 pids=()
  for rank in 0 1; do
    TUTTI_RANK=$rank TUTTI_WORLD_SIZE=2 TUTTI_RENDEZVOUS=127.0.0.1:$1 timeout 60 ./processes >"$rank" 2>&1 &
    pids+=($!)
  done
  for rank in 0 1; do wait "${pids[rank]}" || status=1; done
  cat 0 1
  return $status
}

# As launchers start them, by the plugin for that.
in_two_processes() {
  local port=$((20000 + RANDOM % 10000))
  # shellcheck disable=SC2046  # one word each
  g++ -std=c++20 "$sources/processes.cpp" -o processes $(pkg-config --cflags --libs tutti) || return
  both_processes "$port" || return
  [ "$(cat 0)" = "rank 0 of 2 over shared memory: sum 3" ] && [ "$(cat 1)" = "rank 1 of 2 over shared memory: sum 3" ] || return
  [ "$(./processes)" = "rank 0 of 1 over none: sum 1" ] || return
  ! TUTTI_PLUGINS=/nowhere TUTTI_RANK=0 TUTTI_WORLD_SIZE=2 TUTTI_RENDEZVOUS=127.0.0.1:$port ./processes >output 2>&1 &&
    grep -q 'there is no libtutti_processes.so in /nowhere' output
}

# Levels of processors, best first, that the library was installed for and this machine has.
levels_here() {
  local level
  for level in $(/lib64/ld-linux-x86-64.so.2 --help | sed -n 's/^ *\(x86-64-v[0-9]\) (supported.*/\1/p'); do
    [ ! -d "$library/glibc-hwcaps/$level" ] || echo "$level"
  done
}

# The loader takes the best; processes of two levels say so, and what to do, and that helps.
on_the_best_level() {
  local best port=$((20000 + RANDOM % 10000)) lower=GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2
  best=$(levels_here | head -n 1)
  # shellcheck disable=SC2046  # one word each
  g++ -std=c++20 "$sources/program.cpp" -o program $(pkg-config --cflags --libs tutti) &&
    g++ -std=c++20 "$sources/processes.cpp" -o processes $(pkg-config --cflags --libs tutti) || return
  ldd program | grep -F "glibc-hwcaps/$best/libtutti.so" && ./program || return
  env "$lower" ldd program | grep -F "$library/libtutti.so" && env "$lower" ./program || return
  # Where the one for all was made for this machine, that may be of the same level.
  [ -d "$library/glibc-hwcaps/x86-64-v4" ] || grep -q -w avx512vl /proc/cpuinfo || return 0
  TUTTI_WORLD_SIZE=2 TUTTI_RENDEZVOUS=127.0.0.1:$port TUTTI_RANK=0 timeout 60 ./processes >0 2>&1 &
  env "$lower" TUTTI_WORLD_SIZE=2 TUTTI_RENDEZVOUS=127.0.0.1:$port TUTTI_RANK=1 timeout 60 ./processes >1 2>&1
  wait
  cat 0 1
  grep -F 'instruction level' 0 && grep -F 'GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX' 1 || return
  local -x "$lower"
  both_processes $((port + 1)) && [ "$(cat 1)" = "rank 1 of 2 over shared memory: sum 3" ]
}

consumer pkg_config with_pkg_config g++ -std=c++20
consumer pkg_config_clang_23 with_pkg_config clang++-16 -std=c++2b -DSTANDARD_AFTER=202002L
consumer old_standard with_an_old_standard
[ ! -e "$library/libtutti.a" ] || consumer static statically
consumer cmake with_cmake
[ ! -e "$library/libtutti.a" ] || consumer cmake_static with_cmake_statically
consumer cmake_in_vain with_cmake_in_vain
consumer meson with_meson
consumer embedding as_embedding_shows
consumer c in_c
consumer c_cmake in_c_with_cmake
consumer c_processes in_two_processes_in_c
if "$python" -c 'import numpy' 2>/dev/null; then
  consumer python in_python
else
  echo "python: skipped, there is no build/python (tools/setup.sh python)"
  skipped=$((skipped + 1))
fi
consumer event_loop in_an_event_loop
consumer own_resources with_own_resources
consumer extension with_an_extension
consumer benchmarks with_benchmarks
consumer reports with_reports
consumer conformance with_conformance
consumer plugins as_plugins
consumer processes in_two_processes
consumer subproject as_subproject
consumer headers includes_its_own_alone
consumer symbols exports_its_own_alone
consumer without_cuda starts_without_cuda
if [ "$wanted" != "  " ]; then
  consumer subproject_compiled as_compiled_subproject
  consumer external as_external_project
fi
if [ -n "$(levels_here)" ]; then
  consumer levels on_the_best_level
elif [ -d "$library/glibc-hwcaps" ] && [ "$wanted" = "  " ]; then
  echo "levels: skipped, this processor has none of $(ls "$library/glibc-hwcaps")"
  skipped=$((skipped + 1))
fi
wait
failed=0
for name in "${begun[@]}"; do [ -e "$work/$name.passed" ] || failed=$((failed + 1)); done
echo "$((${#begun[@]} - failed)) passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
