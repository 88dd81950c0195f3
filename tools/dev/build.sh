# SPDX-License-Identifier: Apache-2.0
# Sourced by the subcommands of ./dev: quiet configuring and compiling of a build folder.

release=build/release

# run_quietly LOG COMMAND...: the output goes to LOG, and to the terminal only when the command fails.
run_quietly() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 && return
  echo "failed: $* (whole output: $log)" >&2
  if grep -q -E '^FAILED|ERROR:' "$log"; then
    sed -n -E '/^FAILED|ERROR:/,$p' "$log" | head -n 120 >&2
  else
    tail -n 40 "$log" >&2
  fi
  return 1
}

# configure FOLDER OPTION...: does nothing when the folder was configured with these options before.
configure() {
  local folder=$1 wanted
  shift
  wanted="${CXX:-default compiler} $*"
  [ -f "$folder/build.ninja" ] && [ "$(cat "$folder/configured" 2>/dev/null)" = "$wanted" ] && return
  rm -rf "$folder"
  mkdir -p "$folder"
  run_quietly "$folder.setup.log" meson setup "$folder" "$@" || return
  echo "$wanted" >"$folder/configured"
}

# compile FOLDER [TARGET...]: everything, when no target is named.
compile() {
  local folder=$1
  shift
  echo "building $folder" >&2
  run_quietly "$folder/compile.log" ninja -C "$folder" "$@"
}

# What demo, test and bench share. CI sets TUTTI_WERROR: whoever builds with another compiler is not stopped by a warning.
configure_release() {
  configure "$release" -Dcpu_arch=native ${TUTTI_WERROR:+-Dwerror=true}
}
