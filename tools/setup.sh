#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing: tools/setup.sh GROUP... (build test bench check tidy).
# The one list of what Tutti needs from the system.
set -euo pipefail

declare -A packages=(
  [build]="g++ meson ninja-build pkg-config ccache
           libeigen3-dev libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev libdnnl-dev"
  [test]="doctest-dev"
  [bench]="libbenchmark-dev"
  [check]="clang-16 libclang-rt-16-dev clang-format-16 python3 spin"
  [tidy]="clang-tidy-16"
)

stop() {
  echo "setup: $1" >&2
  exit 1
}

is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Sets `as_root` to what runs a command as root here.
find_root() {
  as_root=()
  [ "$(id -u)" -eq 0 ] && return
  command -v sudo >/dev/null || stop "not root and no sudo; as root, run: apt-get install --no-install-recommends $*"
  as_root=(sudo)
  [ -t 0 ] || as_root=(sudo -n)
  "${as_root[@]}" true || stop "sudo refused; as root, run: apt-get install --no-install-recommends $*"
}

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"
}

install_packages() {
  apt install -y --no-install-recommends "$@" >"$log" 2>&1
}

for group in "$@"; do
  [ -n "${packages[$group]:-}" ] || stop "unknown group '$group' (there are: ${!packages[*]})"
done

missing=()
if command -v dpkg-query >/dev/null; then
  for group in "$@"; do
    for package in ${packages[$group]}; do
      is_installed "$package" || missing+=("$package")
    done
  done
else
  echo "setup: not a Debian system; assuming that the packages of tools/setup.sh are there" >&2
fi
[ ${#missing[@]} -gt 0 ] || exit 0

find_root "${missing[@]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "setup: installing ${missing[*]}" >&2
if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
  apt update >"$log" 2>&1 || { cat "$log" >&2; stop "apt-get update failed"; }
fi
# A list that is too old names files that are gone: look again once.
install_packages "${missing[@]}" || { apt update >/dev/null 2>&1 && install_packages "${missing[@]}"; } || {
  tail -n 20 "$log" >&2
  stop "apt-get could not install ${missing[*]}"
}
