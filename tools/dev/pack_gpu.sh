#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev gpu --pack [--without-build]: gathers in build-gpu-pack what a machine with a GPU and no network lacks, as one archive:
# the programs of ./dev gpu, built here for sm_90 (all device tests in one, the benches), and for a machine on which they do
# not start, the headers, Meson and Ninja that a build takes. With the tree it is at most 60 MiB.
#
# The programs need of the machine glibc, libstdc++ and CUDA's libraries alone, and bring libzmq and libsodium along: the pack
# fails otherwise.
# --without-build: packs what was built, and says so if that is not of these sources.
set -euo pipefail
. tools/dev/build.sh

folder=build/pack
pack=build-gpu-pack
content=build/pack.content
most=$((60 * 1024 * 1024))
programs=(tests/device_tests tests/device_probe tests/distributed/process/sync_process tests/distributed/engines/nccl/nccl_rank
  tests/distributed/engines/nccl/group_rank benches/cuda/gpu_bench)

stop() {
  echo "pack: $1" >&2
  exit 1
}

# Libraries that the machine has no packages for go into the programs: pkg-config is told so.
write_packages() {
  local packages=$PWD/build/pack.packages zlib
  zlib=$(pkg-config --variable=libdir zlib)/libz.a
  [ -f "$zlib" ] || stop "there is no $zlib to link with"
  mkdir -p "$packages"
  printf '%s\n' 'Name: fmt' 'Description: its headers' "Version: $(pkg-config --modversion fmt)" \
    'Cflags: -DFMT_HEADER_ONLY' >"$packages/fmt.pc"
  printf '%s\n' 'Name: zlib' 'Description: its archive' "Version: $(pkg-config --modversion zlib)" \
    "Libs: $zlib" >"$packages/zlib.pc"
  export PKG_CONFIG_PATH=$packages${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
}

# shellcheck disable=SC2086,SC2154 # `merged` is two words
build() {
  write_packages
  configure $folder --buildtype=release -Dcuda=enabled -Dnccl=auto -Dprocesses=enabled -Dcpu_arch=x86-64-v3 \
    -Dexamples=false -Dgpu_arch=90-real $merged ${TUTTI_WERROR:+-Dwerror=true}
  compile $folder device_programs gpu_bench_executables
  python3 tools/source_fingerprint.py >$folder/sources
}

# libzmq, libsodium, and what those load.
brought='^lib(zmq|sodium|pgm-5\.3|norm|gssapi_krb5|krb5|k5crypto|krb5support|com_err|keyutils|bsd|md)\.so\.'

# copy_libraries PROGRAM: beside the headers, where ./dev gpu looks for libraries.
copy_libraries() {
  local name path
  mkdir -p $content/headers/lib
  ldd "$1" | while read -r name _ path _; do
    [[ ! $name =~ $brought ]] || cp -L "$path" "$content/headers/lib/$name"
  done
}

# What a program loads besides libc and what goes with it, libstdc++, CUDA's, and what is brought along.
foreign_libraries() {
  ldd "$1" | sed -E 's/^\s*(\S+).*/\1/; s|.*/||' | grep -v -E \
    '^(linux-vdso|ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|cudart|cublas|cublasLt|cusolver|cusparse|cufft|nvJitLink|nccl))\.so(\.|$)' |
    grep -v -E "$brought" || true
}

copy_programs() {
  local program foreign
  for program in "${programs[@]}"; do
    [ -f "$folder/$program" ] || { # a build without NCCL has no ranks
      [[ ${program##*/} =~ ^(nccl|group)_rank$ ]] && continue
      stop "there is no $folder/$program"
    }
    foreign=$(foreign_libraries "$folder/$program")
    [ -z "$foreign" ] || stop "$program needs what the machine may lack: ${foreign//$'\n'/, }"
    mkdir -p "$content/$(dirname "$program")"
    strip --strip-all -o "$content/$program" "$folder/$program"
    copy_libraries "$folder/$program"
  done
  cp $folder/sources $content/sources
  git rev-parse --short HEAD >$content/commit
}

# header_folder HEADER: where the compiler finds it.
header_folder() {
  local path
  # shellcheck disable=SC2046 # one word each
  path=$(echo "#include <$1>" | g++ -x c++ -std=c++20 $(pkg-config --cflags-only-I eigen3) -M - | tr -s ' \134' '\n' |
    awk -v tail="/$1" 'length($0) > length(tail) && substr($0, length($0) - length(tail) + 1) == tail && !found++') || path=""
  [ -n "$path" ] || stop "there is no header $1"
  echo "${path%"/$1"}"
}

copy_headers() {
  local header name from
  for header in Eigen/Core unsupported/Eigen/FFT doctest/doctest.h fmt/format.h CLI/CLI.hpp nlohmann/json.hpp; do
    name=${header%%/*}
    from=$(header_folder "$header")
    cp -rL "$from/$name" $content/headers/
  done
  for name in zlib.h zconf.h; do
    from=$(header_folder $name)
    cp -L "$from/$name" $content/headers/
  done
}

# Both as a machine without them can start them: the scripts that pip writes name this machine's Python.
copy_meson() {
  local python=$content/headers/python
  if ! python3 -m pip install --disable-pip-version-check --quiet --target $python meson ninja >build/pack.pip.log 2>&1; then
    rm -rf $python
    mkdir -p $python/bin
    cp -r "$(/usr/bin/python3 -c 'import mesonbuild; print(mesonbuild.__path__[0])')" $python/ || stop "Meson is neither on PyPI nor here"
    cp "$(command -v ninja)" $python/bin/ninja
  fi
  printf '%s\n' '#!/usr/bin/env python3' 'import sys' 'from mesonbuild import mesonmain' 'sys.exit(mesonmain.main())' >$python/bin/meson
  chmod +x $python/bin/meson
  find $python -name __pycache__ -prune -exec rm -r {} +
}

# Of all files that travel: those that git knows or does not ignore, and the pack.
travelling_bytes() {
  { git ls-files -z --cached --others --exclude-standard && printf '%s\0' $pack/*; } |
    xargs -0 stat --printf '%s\n' 2>/dev/null | awk '{ bytes += $1 } END { print bytes + 0 }'
}

case ${1:-} in
  '') build ;;
  --without-build)
    [ "$(cat $folder/sources 2>/dev/null)" = "$(python3 tools/source_fingerprint.py)" ] ||
      echo "pack: what was built is of other sources: a machine will build anew" >&2
    ;;
  *) stop "unknown option '$1'; there is --without-build" ;;
esac
rm -rf $content $pack
mkdir -p $content $pack
copy_programs
copy_headers
copy_meson
# Every program holds all kernels: the dictionary reaches from one to the next.
XZ_OPT='--lzma2=preset=2,dict=256MiB' tools/command_progress.py --seconds 60 build/pack.tar.log "packing" \
  tar -C $content --owner=0 --group=0 --sort=name -cJf $pack/pack.tar.xz . || { cat build/pack.tar.log >&2; stop "it cannot be packed"; }
bytes=$(travelling_bytes)
du -sh $pack | sed 's/^/pack: /'
echo "pack: with the tree $((bytes / 1024 / 1024)) MiB of $((most / 1024 / 1024))"
[ "$bytes" -le $most ] || stop "that is more than may travel"
