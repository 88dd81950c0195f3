#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A hash of all that programs are compiled of, so that a program brought along is known to be of these sources.

  source_fingerprint.py [FOLDER]   FOLDER is this tree if it is not given; it need not be a git repository
"""

import hashlib
import os
import pathlib
import sys

SOURCES = {".cpp", ".h", ".cu", ".cuh", ".in"}
BUILD_FILES = {"meson.build", "meson_options.txt", "merge_tests.py"}


def is_source(path):
    return path.suffix in SOURCES or path.name in BUILD_FILES


def sources(root):
    """Paths within the tree, in order; nothing of folders that are built or hidden."""
    found = []
    for folder, folders, files in os.walk(root):
        top = pathlib.Path(folder) == root
        folders[:] = [name for name in folders
                      if not name.startswith(".") and not (top and (name in ("build", "runs", "shared") or name.startswith("build-")))]
        found += [path for name in files if is_source(path := pathlib.Path(folder, name))]
    return sorted(path.relative_to(root).as_posix() for path in found)


def fingerprint(root):
    whole = hashlib.sha256()
    for name in sources(root):
        whole.update(f"{name}\0{hashlib.sha256((root / name).read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


if __name__ == "__main__":
    print(fingerprint(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__.rsplit("/", 2)[0]).resolve()))
