#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the include paths that programs use: tests/documents/include_paths.txt lists them.

usage: include_paths.py --check [FOLDER]      documents, examples and tutti.h name no header of the library that the list
                                              lacks, and every header of the list is there; in the build folder FOLDER,
                                              every one is installed, with all that it includes
       include_paths.py --source LIST OUTPUT  writes a source that includes the whole list
       include_paths.py --self-test
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = "tests/documents/include_paths.txt"
PATH = re.compile(r"<tutti/([\w/]+\.h)>")
# Lists that make something of a macro, which whoever includes them says before.
MACROS = {"backend/kernel_list.h": "TUTTI_KERNEL"}


def listed(path):
    return path.read_text().split()


def named(root):
    """(where, header) of every header of the library that users are shown."""
    texts = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/**/*.*"), root / "tutti.h"]
    for path in sorted(path for path in texts if path.suffix in (".md", ".h", ".cpp") and path.name != "CHANGELOG.md"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for header in PATH.findall(line):
                if not header.startswith(("examples/", "tests/")):
                    yield f"{path.relative_to(root)}:{number}", header


def with_included(root, headers):
    """The headers, and of the library those that they include."""
    reached, left = set(), list(headers)
    while left:
        header = left.pop()
        if header not in reached and (root / header).is_file():
            reached.add(header)
            left += PATH.findall((root / header).read_text())
    return reached


def installed(root, build):
    """Headers that `meson install` puts below include/tutti, as paths there, each of the same path in the tree."""
    plan = json.loads(subprocess.run(["meson", "introspect", "--installed", build], check=True, capture_output=True, text=True).stdout)
    pairs = ((pathlib.Path(source), target.rpartition("/include/tutti/")[2]) for source, target in plan.items()
             if "/include/tutti/" in target)
    return {target for source, target in pairs if source == root / target}


def faults(root, of_build=None):
    paths = listed(root / LIST)
    found = [f"{where}: {LIST} lacks {header}" for where, header in named(root) if header not in paths]
    found += [f"{LIST}: there is no {header}" for header in paths if not (root / header).is_file()]
    if of_build is not None:
        found += [f"{header} is not installed" for header in sorted(with_included(root, paths) - of_build)]
    return found


def write_tree(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def self_test():
    sound = {LIST: "nn/linear.h tutti.h", "nn/linear.h": "#include <tutti/nn/modules/module_call.h>\n", "nn/modules/module_call.h": "",
             "tutti.h": "#include <tutti/nn/linear.h>\n", "docs/a.md": "`<tutti/tutti.h>`\n"}
    every = {"nn/linear.h", "nn/modules/module_call.h", "tutti.h"}
    cases = [(sound, every, None),
             (sound | {"docs/a.md": "<tutti/nn/modules/module_call.h>\n"}, every, "docs/a.md:1"),
             ({name: text for name, text in sound.items() if name != "nn/linear.h"}, every, "no nn/linear.h"),
             (sound, every - {"nn/modules/module_call.h"}, "nn/modules/module_call.h is not installed")]
    failed = 0
    for files, of_build, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            write_tree(pathlib.Path(folder), files)
            found = faults(pathlib.Path(folder), of_build)
        if not (found == [] if expected is None else len(found) == 1 and expected in found[0]):
            failed += 1
            print(f"self-test: expected {expected!r}, got {found}")
    print(f"{len(cases) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) == 3 and arguments[0] == "--source":
        lines = []
        for header in listed(pathlib.Path(arguments[1])):
            lines += [f"#define {MACROS[header]}(...)\n"] if header in MACROS else []
            lines.append(f"#include <tutti/{header}>\n")
        pathlib.Path(arguments[2]).write_text("".join(lines))
        return 0
    if arguments[:1] == ["--check"] and len(arguments) < 3:
        found = faults(ROOT, installed(ROOT, arguments[1]) if len(arguments) > 1 else None)
        print(*found, sep="\n", end="\n" if found else "")
        print(f"include paths: {len(listed(ROOT / LIST))} are kept, {len(found)} faults")
        return 1 if found else 0
    print(__doc__.strip(), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
