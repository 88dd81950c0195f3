#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing: tools/setup.sh GROUP... (build test bench check commit tidy aarch64 mpi package peers report browser docs python torch kernels).
# The one list of what Tutti needs from the system. The groups python, torch, kernels and docs also fill the folders of these names in build/,
# from PyPI.
set -euo pipefail

declare -A packages=(
  [build]="g++ meson ninja-build pkg-config ccache
           libeigen3-dev libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev
           libzmq3-dev libsodium-dev"
  [test]="doctest-dev qemu-user"
  [bench]="libbenchmark-dev"
  [check]="clang-16 lld-16 libclang-rt-16-dev llvm-16 clang-format-16 python3 git spin cmake dpkg-dev abigail-tools iproute2 iptables"
  [commit]="pre-commit clang-format-16 python3 gcc abigail-tools"
  [tidy]="clang-tidy-16"
  [aarch64]="g++-aarch64-linux-gnu zlib1g-dev:arm64"
  [python]="python3 python3-venv"
  [torch]="python3 python3-venv"
  [kernels]="python3 python3-venv"
  [mpi]="libopenmpi-dev openmpi-bin"
  [package]="debhelper dpkg-dev libbenchmark-dev libjs-dygraphs"
  [report]="python3 libjs-dygraphs"
  [browser]="chromium chromium-driver"
  [docs]="python3 python3-venv doxygen doxygen-awesome-css"
  [peers]="python3 libgloo-dev libopenmpi-dev openmpi-bin"
)
# What tests compare with, and all that it needs of other packages: tensorboard's server, which asks for more, never runs.
python_packages="numpy==2.4.6 safetensors==0.8.0 tensorboard==2.20.0 absl-py==2.5.1 protobuf==7.36.2 onnx==1.23.2 ml_dtypes==0.6.0 typing_extensions==4.16.0"
# PyTorch, with all that it asks for: 3 GB, for nothing but ./dev check --full and ./dev bench --peers.
torch_packages="torch==2.15.0 numpy==2.4.6 safetensors==0.8.0"

# CUDA's tools that read compiled kernels, which not every installation of the toolkit has.
kernels_packages="nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.37"

# MkDocs with its theme, and all that they ask for: the documentation site.
docs_packages="mkdocs==1.6.1 mkdocs-material==9.8.2 mkdocs-material-extensions==1.3.1 mkdocs-get-deps==0.2.2
               babel==2.19.0 backrefs==8.3.1 certifi==2026.10.19.post1 charset-normalizer==3.5.3 click==8.5.1 colorama==0.4.6
               ghp-import==2.1.0 idna==3.20 Jinja2==3.1.6 Markdown==3.11.3 MarkupSafe==3.0.4 mergedeep==1.3.4 packaging==26.4
               paginate==0.5.7 pathspec==1.1.1 platformdirs==4.14.8 Pygments==2.21.0 pymdown-extensions==13.1.2
               python-dateutil==4.0.0 PyYAML==6.0.4 pyyaml_env_tag==1.1 requests==2.34.2 six==1.17.0 urllib3==2.8.0 watchdog==7.1.0"

stop() {
  echo "setup: $1" >&2
  exit 1
}

# A name without an architecture means this machine's, though others may be there as well.
is_installed() {
  local architecture="($native_architecture|all)"
  [[ $1 != *:* ]] || architecture=${1#*:}
  dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$1" 2>/dev/null | grep -q -x -E "$architecture installed"
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

# apt LABEL ARGUMENT...: its output goes to the log; what shows how far it is needs Python, which is installed first.
apt() {
  local label=$1
  shift
  # Status on a descriptor of its own, which apt-get closes in what it starts; sudo passes none on, so that it is made behind it.
  local command=("${as_root[@]}" sh -c 'exec "$@" 3>&1' apt-get env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o DPkg::Use-Pty=0 "$@")
  if command -v python3 >/dev/null; then
    tools/command_progress.py --apt "$log" "$label" "${command[@]}" -o APT::Status-Fd=3
  else
    "${command[@]}" >"$log" 2>&1
  fi
}

update() {
  apt "setup: reading lists of packages" update
}

install_packages() {
  command -v python3 >/dev/null || apt "" install -y --no-install-recommends python3 || return
  apt "setup: installing packages" install -y --no-install-recommends "$@"
}

# install_python NAME MB PACKAGES [OPTION...]: in build/NAME, by pip, which downloads and unpacks about so much. Whoever needs
# it looks whether it is there; tests are skipped.
install_python() {
  local folder=build/$1 megabytes=$2 wanted=$3
  shift 3
  [ "$(cat "$folder/installed" 2>/dev/null)" = "$wanted" ] && return
  # shellcheck disable=SC2086  # one word each
  echo "setup: installing in $folder:" $wanted >&2
  local log=$folder.setup.log downloads=$folder.downloads
  mkdir -p "$downloads"
  # shellcheck disable=SC2016,SC2086  # for the shell within; one word each
  if TMPDIR=$PWD/$downloads tools/command_progress.py --fills "$megabytes" "$folder:$downloads" "$log" "setup: $folder" \
    bash -c 'python3 -m venv --clear "$0" && "$0/bin/pip" install --disable-pip-version-check --progress-bar off "$@"' "$folder" "$@" $wanted; then
    echo "$wanted" >"$folder/installed"
  else
    echo "setup: could not install $wanted; what needs them is left out (whole output: $log)" >&2
    rm -rf "$folder"
  fi
  rm -rf "$downloads"
}

install_python_if_asked() {
  [[ " $* " != *" python "* ]] || install_python python 190 "$python_packages" --no-deps
  [[ " $* " != *" kernels "* ]] || install_python kernels 35 "$kernels_packages" --no-deps
  [[ " $* " != *" docs "* ]] || install_python docs 164 "$docs_packages" --no-deps
  [[ " $* " != *" torch "* ]] || install_python torch 5000 "$torch_packages"
}

for group in "$@"; do
  [ -n "${packages[$group]:-}" ] || stop "unknown group '$group' (there are: ${!packages[*]})"
done

missing=()
if command -v dpkg-query >/dev/null; then
  native_architecture=$(dpkg --print-architecture)
  for group in "$@"; do
    for package in ${packages[$group]}; do
      is_installed "$package" || missing+=("$package")
    done
  done
else
  echo "setup: not a Debian system; assuming that the packages of tools/setup.sh are there" >&2
fi
if [ ${#missing[@]} -eq 0 ]; then
  install_python_if_asked "$@"
  exit 0
fi

find_root "${missing[@]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "setup: installing ${missing[*]}" >&2
if [[ "${missing[*]}" == *:arm64* ]] && ! dpkg --print-foreign-architectures | grep -q -x arm64; then
  "${as_root[@]}" dpkg --add-architecture arm64
  update || {
    "${as_root[@]}" dpkg --remove-architecture arm64
    cat "$log" >&2
    stop "apt-get update failed with packages for arm64"
  }
fi
if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
  update || { cat "$log" >&2; stop "apt-get update failed"; }
fi
# A list that is too old names files that are gone: look again once.
install_packages "${missing[@]}" || { update && install_packages "${missing[@]}"; } || {
  tail -n 20 "$log" >&2
  stop "apt-get could not install ${missing[*]}"
}
install_python_if_asked "$@"
