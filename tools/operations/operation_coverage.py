#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/operations.md: every operation with what it is checked with, and PyTorch's and NumPy's names for it.

    operation_coverage.py [--root FOLDER] [--check] [--libraries]

--check writes nothing and fails when the page is not what would be written, or when a function is named that no header
declares. Where torch and numpy of the references' versions cannot be imported, the page's second part, which needs their
lists of functions, is kept as it is. --libraries checks, where tools/references can run, which operations have NumPy's
results.
"""

import argparse
import importlib
import pathlib
import re
import sys

import operation_names as names
import operation_registry as registry

PACKAGES = {"torch": "PyTorch", "numpy": "NumPy"}
COMPARISON = "## Beside PyTorch and NumPy\n"
INTRODUCTION = """# Operations

Written by `tools/operations/operation_coverage.py` from the headers, the tables of `tests/references` and the files that they compare with
([references.md](project/references.md)): do not edit. [onnx.md](onnx.md) has ONNX's names.

## What is checked

A line says in which types of inputs results are compared, and in which the gradients of floating inputs, and the gradients of
gradients. "numeric": by central differences in f64, as all gradients of both orders are besides. "0": a step, whose gradient is 0.
Devices: operations are functions of `Backend`, which is implemented in full for these, or composed of such; every case runs on any of
them (on CUDA's in `./dev gpu`). What depends on the host is said below the table.
"""


def join(words):
    return " ".join(words) if words else "–"


def code_names(declared):
    return ", ".join(f"`{name}`" for name in declared.split()).replace("|", "\\|")


def checked_against(operation, cases):
    """The libraries, with their versions."""
    if operation in names.OTHER_REFERENCES:
        return f"{names.OTHER_REFERENCES[operation]}, on PyTorch {cases.versions['torch']}"
    libraries = []
    if operation not in names.NUMPY_ALONE.split():
        libraries.append("torch")
    if operation in (*names.NUMPY_ALONE.split(), *names.NUMPY_TOO.split()):
        libraries.append("numpy")
    return ", ".join(f"{PACKAGES[each]} {cases.versions[each]}" for each in libraries)


def second_gradient(operation, cases, steps):
    if operation in steps:
        return "0"
    if not cases.dtypes["g"]:
        return "–"
    return join(registry.in_order(cases.dtypes["h"])) if cases.dtypes["h"] else "numeric"


def table(root, faults):
    operations, cases = registry.table_operations(root), registry.all_cases(root)
    steps = registry.without_second_gradient(root)
    lacking = {kind: registry.missing_on(root, kind) for kind in ("cpu", "cuda")}
    faults += [f"the {kind} backend lacks {', '.join(missing)}" for kind, missing in lacking.items() if missing]
    devices = ", ".join(kind.upper() for kind, missing in lacking.items() if not missing)
    lines = ["| operation | declared | types | devices | gradient | second gradient | checked against | cases |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for operation, declared in sorted(operations.items()):
        if operation not in cases:
            faults.append(f"{operation} has no case in tests/references/data")
            continue
        own = cases[operation]
        called = "" if declared == operation else code_names(declared)
        types, gradients = (join(registry.in_order(own.dtypes[kind])) for kind in "xg")
        lines.append(f"| {operation} | {called} | {types} | {devices} | {gradients} | "
                     f"{second_gradient(operation, own, steps)} | {checked_against(operation, own)} | {own.count} |")
    return lines


def others(root):
    lines = ["Optimizers, clipping and schedules, in the same manner:", "",
             "| file | names | types | packages |", "| --- | --- | --- | --- |"]
    for file, listed, dtypes, versions in registry.other_files(root):
        packages = ", ".join(f"{PACKAGES.get(name, name)} {version}" for name, version in versions.items())
        lines.append(f"| {file} | {', '.join(listed)} | {join(dtypes)} | {packages} |")
    return lines


def untested(root, faults):
    """What has no reference, with where it is tested."""
    listed = set(registry.without_reference(root)) | set(names.HOST.split())
    lines = ["What has no reference, because it draws at random, makes constants or is about graphs:", "",
             "| functions | tested in |", "| --- | --- |"]
    for path, functions in names.TESTED.items():
        there = [name for name in functions.split() if name in listed]
        for name in set(functions.split()) - set(there):
            faults.append(f"{path} is said to test {name}, which kNoOperations does not name")
        if not there:
            continue
        test = root / path
        text = test.read_text() if test.exists() else ""
        for name in there:
            if name.removeprefix("operator").lower() not in text.lower():
                faults.append(f"{path} is said to test {name}, and does not name it")
        lines.append(f"| {code_names(' '.join(there))} | `{path}` |")
    return [*lines, "", names.HOST_NOTE]


def undeclared(root, faults):
    """Names that no header has, and declarations that are in no list."""
    words = registry.declared_words(root)
    for theirs, ours in mapping(names.TORCH) + mapping(names.NUMPY):
        for quoted in re.findall(r"`([^`]*)`", ours):
            called = re.findall(r"\b([A-Za-z_]\w*)\(", quoted) + re.findall(r"^[A-Za-z_]\w+$", quoted)
            for name in called:
                if name not in words:
                    faults.append(f"{' '.join(theirs)}: `{quoted}`: no header declares {name}")
    listed = set(registry.without_reference(root))
    for declared in registry.table_operations(root).values():
        listed.update(declared.split())
    for name in sorted(registry.declared_functions(root) - listed):
        faults.append(f"{name} is declared, and in no table of tests/references, nor in kNoOperations")


def mapping(text):
    """[(their names, ours)]"""
    pairs = (line.split(":", 1) for line in text.strip().splitlines())
    return [(theirs.split(), ours.strip()) for theirs, ours in pairs]


def comparison(title, functions, text, left_out, operations, faults):
    """`functions`: the library's names. Those of no list have the same name here."""
    mapped, reasons = mapping(text), {reason: listed.split() for reason, listed in left_out.items()}
    named = [name for theirs, _ in mapped for name in theirs] + [name for each in reasons.values() for name in each]
    for name in sorted({each for each in named if named.count(each) > 1}):
        faults.append(f"{title}: {name} is named twice")
    for name in sorted(set(named) - set(functions)):
        faults.append(f"{title} has no function {name}")
    same = [name for name in functions if name not in named]
    for name in same:
        if name.split(".")[-1] not in operations:
            faults.append(f"{title}: {name} is in no list of tools/operations/operation_names.py")
    lines = [f"### {title}", "", f"{len(functions)} functions. The same name here: "
             + ", ".join(f"`{name}`" for name in same) + ".", "", "| there | here |", "| --- | --- |"]
    for theirs, ours in mapped:
        escaped = ours.replace("|", "\\|")
        lines.append(f"| {', '.join(f'`{name}`' for name in theirs)} | {escaped} |")
    lines += ["", "Left out:", ""]
    lines += [f"- {reason}: {', '.join(f'`{name}`' for name in listed)}." for reason, listed in reasons.items()]
    return lines


def functions_of(module, listed=None):
    listed = [name for name in dir(module) if not name.startswith("_")] if listed is None else listed
    return sorted(name for name in listed
                  if callable(getattr(module, name)) and not isinstance(getattr(module, name), type))


def second_part(root, faults):
    """None where the libraries are not installed in the versions of the references."""
    try:
        import numpy
        import torch
        from torch.nn import functional
    except ImportError:
        return None
    installed = {"torch": torch.__version__.split("+")[0], "numpy": numpy.__version__}
    wanted = registry.all_cases(root)["matmul"].versions
    if installed != {package: wanted[package] for package in installed}:
        print(f"{COMPARISON.strip()} is kept: it is of {wanted}, and {installed} are installed")
        return None
    operations = {name for declared in registry.table_operations(root).values() for name in declared.split()}
    lines = [COMPARISON, "Every function of both libraries has a name here, or what one writes instead, or a reason for its absence.",
             "Where one of the same name differs, [from-pytorch.md](guides/from-pytorch.md) says how.", ""]
    lines += comparison(f"torch.nn.functional, {torch.__version__.split('+')[0]}",
                        [name for name in functions_of(functional) if name != "Optional"],
                        names.TORCH, names.TORCH_LEFT_OUT, operations, faults)
    everything = functions_of(numpy, numpy.__all__)
    for part in (numpy.linalg, numpy.fft):
        title = part.__name__.removeprefix("numpy.")
        everything += [f"{title}.{name}" for name in functions_of(part, part.__all__)]
    lines += ["", *comparison(f"NumPy, {numpy.__version__}, with linalg and fft", everything, names.NUMPY,
                              names.NUMPY_LEFT_OUT, operations, faults)]
    return "\n".join(lines) + "\n"


def first_part(root, faults):
    parts = [[INTRODUCTION], table(root, faults), [""], others(root), [""], untested(root, faults), ["", ""]]
    undeclared(root, faults)
    return "\n".join(line for part in parts for line in part)


def libraries(root, faults):
    """Which library gives the cases' results, from the generators themselves, which are called without computing."""
    sys.path.insert(0, str(root / "tools" / "references"))
    reference_file, generate = importlib.import_module("reference_file"), importlib.import_module("generate")
    found = {}

    def case(self, operation, reference, *_, **__):
        called = getattr(getattr(reference, "__code__", None), "co_names", ())
        is_numpy = "in_numpy" in reference.__qualname__ or "numpy" in called
        found.setdefault(operation, set()).add("numpy" if is_numpy else "torch")

    reference_file.ReferenceFile.case = case
    reference_file.ReferenceFile.write = lambda self, path: None
    for write in generate.FILES.values():
        if write.__qualname__.startswith("cases."):
            write(None)
    for listed, wanted in (("NUMPY_ALONE", {"numpy"}), ("NUMPY_TOO", {"numpy", "torch"})):
        expected = sorted(operation for operation, by in found.items() if by == wanted)
        if expected != sorted(getattr(names, listed).split()):
            faults.append(f"{listed} of tools/operations/operation_names.py should be: {' '.join(expected)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--libraries", action="store_true")
    options = parser.parse_args()
    faults = []
    page = options.root / "docs" / "operations.md"
    before = page.read_text() if page.exists() else ""
    kept = before[before.index(COMPARISON):] if COMPARISON in before else COMPARISON
    made = second_part(options.root, faults)
    text = first_part(options.root, faults) + (kept if made is None else made)
    if options.libraries:
        libraries(options.root, faults)
    if options.check and text != before:
        faults.append("docs/operations.md is not what tools/operations/operation_coverage.py writes: run it")
    elif not options.check:
        page.write_text(text)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
