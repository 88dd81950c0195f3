#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/kernels/kernel_report.py BUILD: what each CUDA kernel of a build needs, as Markdown; docs/project/cuda-kernels.md shows it.

With --check: fails if one spills registers, or if one that is to load 16 bytes at a time does not. No GPU is needed.

Needs cuobjdump and, to check, nvdisasm (of the CUDA toolkit, or nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm of PyPI).

Kernels of one source and name (their instantiations) share a row, which shows the most that any of them needs.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

# By source: instantiations whose loads of global memory are to be of 16 bytes, by a part of their names.
WIDE = {
    "dropout.cu": r"(drop_elements|scale_kept)<float>",
    "normalize.cu": r"normalize(_gradient)?_lines<.*, true>",
    "reduce.cu": r"reduce_lines<",
    "scatter.cu": r"add_row_runs<\w+, true>",
    "softmax.cu": r"softmax(_gradient)?_lines<.*, true>",
}

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


def dumped(path, what):
    return subprocess.run(["cuobjdump", what, str(path)], capture_output=True, text=True, check=True).stdout


def kernels_of(path):
    found = USAGE.findall(dumped(path, "--dump-resource-usage"))
    return [(name, *map(int, numbers)) for name, (_, *numbers) in zip(demangled([f[0] for f in found]), found)]


def wide_loads(sass):
    """How many loads of 16 bytes from global memory each kernel has, by its mangled name."""
    counts, name = {}, None
    for line in sass.splitlines():
        if function := re.match(r"\s*Function : (\S+)", line):
            name = function[1]
            counts[name] = 0
        elif name is not None and re.search(r"\bLDG\.E(\.\w+)*\.128\b", line):
            counts[name] += 1
    return counts


def narrow_kernels(source, counts):
    """What is wrong with the loads of a source's kernels."""
    expected = [name for name in counts if re.search(WIDE[source], name)]
    if not expected:
        return [f"{source}: no kernel is named {WIDE[source]}"]
    return [f"{source}: {name} has no load of 16 bytes" for name in expected if counts[name] == 0]


def faults_of(path):
    source = path.name.removesuffix(".o")
    faults = [f"{source}: {name} spills {numbers[-1]} bytes" for name, *numbers in kernels_of(path) if numbers[-1] > 0]
    if source in WIDE:
        counts = wide_loads(dumped(path, "--dump-sass"))
        faults += narrow_kernels(source, dict(zip(demangled(counts), counts.values())))
    return faults


def check(objects):
    missing = [tool for tool in ("cuobjdump", "nvdisasm") if shutil.which(tool) is None]
    if missing:
        print(f"kernel_report: {' and '.join(missing)} not found", file=sys.stderr)
        return 1
    left = sorted(set(WIDE) - {path.name.removesuffix(".o") for path in objects})
    faults = [f"{source} was not built" for source in left]
    for path in objects:
        faults += faults_of(path)
    for fault in faults:
        print(fault)
    print(f"kernel_report: {len(objects)} sources, {len(faults)} faults")
    return 1 if faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="fail where a kernel spills, or loads less than it is to")
    arguments = parser.parse_args()
    objects = sorted(arguments.build.glob("backend/cuda/*.p/*.cu.o"))
    if not objects:
        print("kernel_report: no CUDA kernels in this build", file=sys.stderr)
        return 1
    return check(objects) if arguments.check else report(objects)


def report(objects):
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
