#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/dev/rehearse_gpu.sh [ROOT] [OUTPUT]: what ./dev gpu will do on a machine that is only lent: the tree and build-gpu-pack, as they
# travel, in an empty Debian in which nothing but python3 is installed, without network, all stages on CPU devices. The folder
# ROOT is made by debootstrap if it does not exist (build/rehearsal); results go to OUTPUT (runs/rehearsal). As root, after
# ./dev gpu --pack.
#
# CUDA's libraries, which such a machine has, are seen there at /usr/local/cuda/lib64, and nothing else of this machine.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

root=${1:-$PWD/build/rehearsal}
output=${2:-$PWD/runs/rehearsal}
libraries=$(readlink -f "${CUDA_PATH:-/usr/local/cuda}/lib64")
most_seconds=540

stop() {
  echo "rehearsal: $1" >&2
  exit 1
}

[ "$(id -u)" -eq 0 ] || stop "it needs root, for chroot"
[ -f build-gpu-pack/pack.tar.xz ] || stop "there is no pack: ./dev gpu --pack makes it"
[ -d "$root" ] || debootstrap --variant=minbase --include=python3 bookworm "$root"
root=$(readlink -f "$root")
for program in g++ git meson ninja nvcc; do
  [ -z "$(chroot "$root" /bin/sh -c "command -v $program")" ] || stop "$root has $program: it is not empty"
done

rm -rf "$root/tree" "$root/out"
mkdir -p "$root/tree" "$root/out" "$root/usr/local/cuda/lib64" "$output"
{ git ls-files -z --cached --others --exclude-standard && printf 'build-gpu-pack\0'; } |
  tar --null --files-from=- --ignore-failed-read -cf - | tar -C "$root/tree" -xf -

# In namespaces of its own: no network, and mounts that go with it.
began=$SECONDS status=0
# shellcheck disable=SC2016 # for the shell within
unshare --net --mount --pid --fork --propagation private /bin/bash -c '
  mount --bind "$2" "$1/usr/local/cuda/lib64" && mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/dev/shm" &&
    exec chroot "$1" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root OUT=/out /bin/bash -c "cd /tree && ./dev gpu --rehearse"
' rehearse "$root" "$libraries" || status=$?
took=$((SECONDS - began))

cp "$root"/out/gpu-results.md "$root"/out/gpu.tgz "$output"
echo "rehearsal: status $status after $took s; results are in $output"
[ "$status" -eq 0 ] || stop "a stage failed"
[ $took -lt $most_seconds ] || stop "that is more than $most_seconds s"
tar -tzf "$output/gpu.tgz" | grep -q 'programs$' || stop "the programs that were brought along were not used"
for file in "$root"/out/*; do
  [ "$(stat -c %s "$file")" -lt $((16 * 1024 * 1024)) ] || stop "$file is too large to come back"
done
