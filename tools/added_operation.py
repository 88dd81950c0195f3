#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds an operation of each sort to a copy of the tree as docs/guides/adding-an-operation.md says, compiles and runs it.

    added_operation.py BUILD [--keep FOLDER]

BUILD is a folder that Meson has configured, with the libraries compiled. What is added stands in tools/added_operation.
Its files are those of the document's tables, with the operation's name in place of the one that is followed there: a
table with a file too few leaves something undone, which does not compile, link or run; a file too many is named.

Compiled are the sources that are new, those that hold all kernels or all operations, and those that may call these within
one object of the library, where several sources are merged; the rest is the library's. That
is sound because what is added stands last in its list, and all before it keeps its place.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import check_layers

ROOT = pathlib.Path(__file__).resolve().parent.parent
ADDED = ROOT / "tools" / "added_operation"
CUDA_HEADERS = pathlib.Path("/usr/local/cuda/include")
LAST_OF_NAMESPACE = "\n}  // namespace tutti"


class Wrong(Exception):
    """What the document or the tree has wrong."""


def documented(title, followed, added):
    """The files of the first table under the heading, for the operation that is added; documents are written by tools."""
    text = (ROOT / "docs/guides/adding-an-operation.md").read_text()
    section = re.search(rf"^## {re.escape(title)}[^\n]*\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    table = re.search(r"^\| file \| what \|\n\|[^\n]*\n((?:\|[^\n]*\n)+)", section[1], re.M)
    cells = [row.split("|")[1] for row in table[1].splitlines()]
    paths = [path for cell in cells for path in re.findall(r"`([^`]+)`", cell)]
    return {path.replace(followed, added) for path in paths if not path.startswith("docs/")}


def before(text, place, more):
    """`text` with `more` before the last `place`."""
    head, found, tail = text.rpartition(place)
    if not found:
        raise Wrong(f"nothing ends with {place.strip()!r} any more")
    return head + more + found + tail


def parts(name):
    """path -> text of a file in tools/added_operation: what comes behind each line `// === path`."""
    pieces = re.split(r"^// === (\S+)\n", (ADDED / name).read_text(), flags=re.M)
    return dict(zip(pieces[1::2], pieces[2::2]))


ELEMENTWISE = parts("elementwise.txt")
STRUCTURED = parts("structured.txt")


def elementwise_edits():
    return {
        "backend/elementwise/activations.h":
            lambda text, more: before(text, LAST_OF_NAMESPACE, "\n" + more.rstrip() + "\n"),
        "backend/elementwise/operation_list.h": lambda text, more: before(text, "\n#undef TUTTI_UNARY\n", more),
    }


def structured_edits():
    declared = {path: lambda text, more: before(text, LAST_OF_NAMESPACE, more)
                for path in ("backend/operations.h", "autodiff/operations/along_axis.h")}
    new = ("backend/operations/rise.cpp", "backend/cpu/operations/rise.cpp", "backend/cuda/operations/rise.cpp", "autodiff/operations/rise.cpp",
           "backend/cuda/kernels/rise.h", "backend/cuda/kernels/rise.cu")
    return {
        "backend/kernel_list.h": lambda text, more: before(text, "\n#undef TUTTI_FUSED_KERNEL\n", more),
        "backend/operations/meson.build": lambda text, more: before(text, "}\n\noperation_sources = ", more),
        **declared, **{path: lambda _, more: more for path in new},
    }


def add(copy, edits, texts, files):
    """Writes to the documented files, and to no others."""
    for path in sorted(files ^ set(edits)):
        raise Wrong(f"{path}: " + ("the document names it, and it is not needed" if path in files else
                                   "it is needed, and the document does not name it"))
    for path, edit in edits.items():
        file = copy / path
        file.write_text(edit(file.read_text() if file.exists() else "", texts.get(path, "")))


def copied_tree(folder):
    """The part of the tree that is compiled, where <tutti/...> is found."""
    tree = folder / "tree"
    for name in ("backend", "autodiff", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("data", "__pycache__"))
    (tree / "tests/references/data").symlink_to(ROOT / "tests/references/data")
    for name in ("nn", "exchange", "optim", "testing"):  # headers that tools/operations/operation_coverage.py and tests read
        (tree / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "docs", tree / "docs")
    (folder / "include").mkdir()
    (folder / "include/tutti").symlink_to(tree)
    return tree


class Compiler:
    """The commands of a build folder, on the copy."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        commands = json.loads((build / "compile_commands.json").read_text())
        command = next(each["command"] for each in commands if re.search(r"libtutti_backend_cpu\.a\.p/.*\.o$", each["output"]))
        self.flags = [word for word in self.plain(shlex.split(command)) if not re.match(r"-O\d|-I|-g", word)]

    @staticmethod
    def plain(words):
        """Without what names this one source, and without a compiler cache."""
        kept, skip = [], False
        for word in words:
            if not skip and word not in ("-MQ", "-MF", "-o", "-c", "-include", "-include-pch", "-MD", "-Winvalid-pch"):
                kept.append(word)
            skip = not skip and word in ("-MQ", "-MF", "-o", "-c", "-include", "-include-pch")
        return kept[1:] if os.path.basename(kept[0]) == "ccache" else kept

    def run(self, words):
        done = subprocess.run(words, cwd=self.build, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def compile(self, source, *more):
        """The object of a source."""
        target = self.folder / "objects" / (re.sub(r"\W", "_", str(source.relative_to(self.folder))) + ".o")
        target.parent.mkdir(exist_ok=True)
        include = self.folder / "include"
        status, text = self.run([*self.flags, "-O0", *more, f"-I{include}", "-c", str(source), "-o", str(target)])
        if status != 0:
            raise Wrong(f"{source.relative_to(self.folder)} does not compile:\n{text[:4000]}")
        return target

    def compile_all(self, sources):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda source: self.compile(*source), sources))

    def link_and_run(self, objects):
        command = subprocess.run(["ninja", "-C", str(self.build), "-t", "commands", "tests/autodiff_test"],
                                 capture_output=True, text=True, check=True).stdout.splitlines()[-1]
        words = [word for word in shlex.split(command) if "autodiff_test.p/" not in word]
        place = words.index("-o")
        program = str(self.folder / "program")
        # What was compiled here comes first and wins, also where an object of the library holds several sources.
        status, text = self.run([*words[:place], "-o", program, *map(str, objects), "-Wl,--allow-multiple-definition",
                                 *words[place + 2:]])
        if status != 0:
            raise Wrong(f"what was added does not link:\n{text[:4000]}")
        status, text = self.run([program])
        if status != 0:
            raise Wrong(f"what was added does not work (status {status}):\n{text[:4000]}")


def check_page(tree, fault):
    """docs/operations.md would know of it: only its reference is missing, which is no part of the copy."""
    done = subprocess.run([sys.executable, str(ROOT / "tools/operations/operation_coverage.py"), "--root", str(tree), "--check"],
                          capture_output=True, text=True, check=False)
    if fault not in done.stdout:
        raise Wrong(f"tools/operations/operation_coverage.py does not say {fault!r}:\n{done.stdout}{done.stderr}")


def add_elementwise(build, folder):
    tree = copied_tree(folder)
    add(tree, elementwise_edits(), ELEMENTWISE, documented("Each element by itself", "softplus", "cube"))
    check_page(tree, "cube has no case in tests/references/data")
    compiler = Compiler(build, folder)
    main = tree / "main.cpp"
    main.write_text(ELEMENTWISE["main.cpp"])
    tables = [f"backend/cpu/operations/elementwise{part}.cpp" for part in ("", "_f32", "_f64", "_integers")]
    sources = [*tables, "autodiff/operations/elementwise_functions.cpp"]
    compiler.link_and_run(compiler.compile_all([(main,), *((tree / source,) for source in sources)]))


def refuses_backend_without(compiler, tree):
    """A backend that someone wrote by hand, before the kernel was added, must not compile."""
    source = tree / "lacking.cpp"
    source.write_text(STRUCTURED["lacking.cpp"].replace("LIST_BEFORE", str(ROOT / "backend/kernel_list.h")))
    try:
        compiler.compile(source, "-fsyntax-only")
    except Wrong as wrong:
        if "rise" in str(wrong) and "abstract" in str(wrong):
            return
        raise
    raise Wrong("a backend without the kernel compiles")


def add_structured(build, folder):
    tree = copied_tree(folder)
    add(tree, structured_edits(), STRUCTURED, documented("With kernels of its own", "cumsum", "rise"))
    check_page(tree, "rise is declared, and in no table of tests/references")
    files = [pathlib.Path(path) for path in structured_edits()]
    faults = [*check_layers.check_operations(tree), *check_layers.check_listed(tree, files)]
    if faults:
        raise Wrong("\n".join(faults))
    compiler = Compiler(build, folder)
    main = tree / "main.cpp"
    main.write_text(STRUCTURED["main.cpp"])
    sources = ["backend/operations/rise.cpp", "backend/cpu/operations/rise.cpp", "autodiff/operations/rise.cpp",
               "backend/cpu/cpu_backend.cpp", "backend/capture/capture.cpp", "backend/capture/recording_calls.cpp",
               "tests/comparison/perturbed_backend.cpp"]
    on_host = tree / "tests/backend/cuda/on_host"
    kernel = tree / "kernel_on_host.cpp"
    kernel.write_text((on_host / "kernel.cpp.in").read_text().replace("@kernel@", "rise"))
    unlinked = [(kernel, "-isystem", str(on_host / "cuda"), "-Wno-unknown-pragmas")]
    if CUDA_HEADERS.exists():
        unlinked.append((tree / "backend/cuda/operations/rise.cpp", "-isystem", str(CUDA_HEADERS)))
    objects = compiler.compile_all([(main,), *((tree / source,) for source in sources), *unlinked])
    compiler.link_and_run(objects[:1 + len(sources)])
    refuses_backend_without(compiler, tree)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the copies, which stay there")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for sort in (add_elementwise, add_structured):
            folder = (arguments.keep or pathlib.Path(temporary)).resolve() / sort.__name__
            folder.mkdir(parents=True)
            try:
                sort(arguments.build.resolve(), folder)
            except Wrong as wrong:
                print(f"docs/guides/adding-an-operation.md: {wrong}")
                failed += 1
    print(f"added operations: {failed} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
