# SPDX-License-Identifier: Apache-2.0
# Sourced by the subcommands of ./dev: quiet configuring and compiling of a build folder.

release=build/release
# So that ccache keeps what was compiled with precompiled headers, too.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}
# Its depend mode is unsound here: GCC's lists of dependencies leave out what a precompiled header holds.
export CCACHE_NODEPEND=1
# GCC's precompiled headers hold checksums of whole files, comments too: one made before a comment changed does not do.
export CCACHE_COMMENTS=1
# Eight of the library's sources are compiled as one, for less of the processor's time (docs/performance.md).
merged='-Dunity=on -Dunity_size=8'

# show_failure LOG COMMAND...: what the log says of the command's failure.
show_failure() {
  local log=$1
  shift
  echo "failed: $* (whole output: $log)" >&2
  if grep -q -E '^FAILED|ERROR:' "$log"; then
    sed -n -E '/^FAILED|ERROR:/,$p' "$log" | head -n 120 >&2
  else
    tail -n 40 "$log" >&2
  fi
}

# is_configured FOLDER OPTION...: true when the folder was configured with these options, and this compiler.
is_configured() {
  local folder=$1
  shift
  [ -f "$folder/build.ninja" ] && [ "$(cat "$folder/configured" 2>/dev/null)" = "${CXX:-default compiler} $*" ]
}

# configure FOLDER OPTION...: does nothing when the folder was configured with these options before.
configure() {
  local folder=$1
  is_configured "$@" && return
  shift
  echo "configuring $folder" >&2
  rm -rf "$folder"
  mkdir -p "$folder"
  # It takes 3 to 15 s the first time.
  tools/command_progress.py --seconds 8 "$folder.setup.log" "configuring $folder" meson setup "$folder" "$@" || {
    show_failure "$folder.setup.log" meson setup "$folder" "$@"
    return 1
  }
  echo "${CXX:-default compiler} $*" >"$folder/configured"
}

# compile FOLDER [TARGET...]: everything, when no target is named. Shows how far it is.
compile() {
  local folder=$1 status=0
  tools/compile_progress.py "$@" || status=$?
  [ $status -eq 0 ] || [ $status -eq 130 ] || show_failure "$folder/compile.log" ninja -C "$@"
  return $status
}

# GCC looks for what it can free at 128 MB, for a tenth of its time; where each compiler may take 4 GB, at 1 GB.
compiler_memory() {
  local kilobytes
  kilobytes=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo 2>/dev/null)
  [ "${kilobytes:-0}" -ge $((4000000 * ($(nproc) + 2))) ] || return 0
  ! "${CXX:-c++}" --version 2>/dev/null | grep -q 'Free Software' || echo " -Dcpp_args=--param=ggc-min-heapsize=1000000"
}

# What demo, test and bench share. Kernels are compiled at -O3 (meson.build). CI sets TUTTI_WERROR: whoever builds with
# another compiler is not stopped by a warning.
release_options="-Dcpu_arch=native -Doptimization=2 $merged$(compiler_memory) ${TUTTI_WERROR:+-Dwerror=true}"
configure_release() {
  # shellcheck disable=SC2086  # one word each
  configure "$release" $release_options
}

# As the release but for CUDA, tests and benches.
configure_without_cuda() {
  local folder=$1
  shift
  # shellcheck disable=SC2086  # one word each
  configure "$folder" $release_options -Dcuda=disabled -Dtests=false -Dbenches=false "$@"
}

has_gpu() {
  compgen -G '/dev/nvidia[0-9]*' >/dev/null || [ -e /dev/dxg ] || nvidia-smi -L >/dev/null 2>&1
}

# configure_demo TARGET: sets `folder` to where TARGET is built: in the release where it has been built, or where CUDA is
# to be used; else in a folder of its own, without CUDA.
configure_demo() {
  folder=$release
  # shellcheck disable=SC2086  # one word each
  if { [ -x "$release/$1" ] && is_configured "$release" $release_options; } || { { command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } >/dev/null && has_gpu; }; then
    tools/setup.sh test bench
    configure_release
  else
    folder=build/demo
    configure_without_cuda "$folder"
  fi
}
