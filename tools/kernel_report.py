#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/kernel_report.py BUILD: what each CUDA kernel of a build needs, as Markdown; docs/cuda-kernels.md shows it.

Needs cuobjdump (of the CUDA toolkit, or nvidia-cuda-cuobjdump of PyPI).

Kernels of one source and name (their instantiations) share a row, which shows the most that any of them needs.
"""

import argparse
import pathlib
import re
import subprocess
import sys

USAGE = re.compile(r"Function (\S+):\s*\n\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return text.splitlines()


def base_name(name):
    """"element_kernel" of "void tutti::(anonymous namespace)::element_kernel<float, ...>(...)"."""
    name = name.replace("(anonymous namespace)", "anonymous")
    depth, kept = 0, ""
    for character in name:
        depth += character == "<"
        if depth == 0:
            kept += character
        depth -= character == ">"
    head = kept.split("(")[0].split()[-1]
    return re.sub(r"^(void )?(tutti::)?(cuda_kernels::)?(anonymous::)?", "", head)


def kernels_of(path):
    text = subprocess.run(["cuobjdump", "--dump-resource-usage", str(path)], capture_output=True, text=True,
                          check=True).stdout
    found = USAGE.findall(text)
    return [(name, *map(int, numbers)) for name, (_, *numbers) in zip(demangled([f[0] for f in found]), found)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    objects = sorted(parser.parse_args().build.glob("backend/cuda/*.p/*.cu.o"))
    if not objects:
        print("kernel_report: no CUDA kernels in this build", file=sys.stderr)
        return 1
    print("| source | kernel | instantiations | registers | shared, bytes | stack, bytes | local (spills), bytes |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for path in objects:
        rows = {}
        for name, *numbers in kernels_of(path):
            rows.setdefault(base_name(name), []).append(numbers)
        for kernel, numbers in sorted(rows.items()):
            registers, stack, shared, local = (max(column) for column in zip(*numbers))
            print(f"| {path.name.removesuffix('.o')} | {kernel} | {len(numbers)} | {registers} | {shared} | {stack} | "
                  f"{local} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
