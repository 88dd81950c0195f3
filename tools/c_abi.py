#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the binary interface of the C API: what a program was compiled with goes on running with later libraries.

usage: c_abi.py --check       compares c_api.h with c_api/released.abi by abidiff: functions, their parameters, structures and
                              constants; only additions pass, which TUTTI_C_API_VERSION has to count
       c_abi.py --record      writes c_api/released.abi, with each release
       c_abi.py --self-test

The interface is read from what the compiler makes of the header: a library with a function for each of its functions, and for
each constant, and each field's place, an array of a length that tells it. That the real library exports the same functions is seen by
tools/dev/consumers.sh.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ROOT / "c_api.h"
RELEASED = ROOT / "c_api" / "released.abi"
FUNCTION = re.compile(r"^(?P<result>(?:const )?\w+[ *]+)(?P<name>tutti_\w+)\((?P<parameters>[^;{]*)\);", re.MULTILINE)
CONSTANT = re.compile(r"^\s+(TUTTI_\w+) = \d+,?", re.MULTILINE)
VERSION = re.compile(r"#define TUTTI_C_API_VERSION (\d+)")
STRUCTURE = re.compile(r"^typedef struct (tutti_\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^\s+\w+ (\w+);", re.MULTILINE)
# Structures have a size as their first field, and grow at their end: their fields are variables of the library below.
SUPPRESSIONS = """
[suppress_type]
  name_regexp = ^(const )?tutti_[a-z]+_options$
"""
# abidiff's status, by bits.
FAILED, CHANGED, INCOMPATIBLE = 1 | 2, 4, 8


class Fault(Exception):
    pass


def library_source(header):
    """C that defines everything that the header declares."""
    functions = [match.groupdict() for match in FUNCTION.finditer(header)]
    constants = CONSTANT.findall(header)
    if not functions or not constants or not VERSION.search(header):
        raise Fault("the header has no functions, constants or version")
    lines = ['#include "c_api.h"']
    for each in functions:
        body = "{}" if each["result"].strip() == "void" else "{ return 0; }"
        lines.append(f"{each['result']}{each['name']}({each['parameters']}) {body}")
    # One more than the value: an array of no elements has no type of its own.
    lines += [f"char tutti_constant_{name}[{name} + 1];" for name in constants]
    for structure, fields in STRUCTURE.findall(header):
        for field in FIELD.findall(fields):
            lines.append(f"char tutti_place_{structure}_{field}[offsetof({structure}, {field}) + 1];")
            lines.append(f"__typeof__((({structure}*)0)->{field}) tutti_type_{structure}_{field};")
    return "\n".join(lines) + "\n"


def run(*command, allowed=(0,), folder=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=folder)
    if done.returncode not in allowed:
        raise Fault(f"{command[0]}: {(done.stdout + done.stderr).strip()}")
    return done


def describe(header, output):
    """Writes the interface of a header to a file of abidw."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "c_api.h").write_text(header)
        (folder / "library.c").write_text(library_source(header))
        # Within the folder, so that the same interface gives the same file.
        run("gcc", "-std=c11", "-g", "-O0", "-w", "-shared", "-fPIC", "library.c", "-o", "libtutti.so", folder=folder)
        run("abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--type-id-style", "hash", "--out-file", output,
            folder / "libtutti.so")


def differences(released, header):
    """What abidiff says of a header beside what was released; empty: nothing but additions, and these are counted."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        describe(header, folder / "now.abi")
        (folder / "suppressions").write_text(SUPPRESSIONS)
        compare = ["abidiff", "--suppressions", folder / "suppressions", "--no-show-locs", released, folder / "now.abi"]
        changed = run(*compare, "--no-added-syms", allowed=range(16))
        if changed.returncode & FAILED:
            raise Fault(changed.stdout + changed.stderr)
        if changed.returncode & (CHANGED | INCOMPATIBLE):
            return changed.stdout
        added = run(*compare, allowed=range(16))
        is_counted = VERSION.search(header)[1] != VERSION.search(version_of(released))[1]
        if added.returncode & CHANGED and not is_counted:
            return added.stdout + "TUTTI_C_API_VERSION has to count what is added\n"
        return ""


def version_of(released):
    """The line that defines the version which was released, from the comment that --record leaves."""
    return pathlib.Path(released).read_text().splitlines()[-1]


def record(header, output):
    describe(header, output)
    with open(output, "a") as file:  # abidiff looks at a file's beginning to tell what it is
        file.write(f"<!-- SPDX-License-Identifier: Apache-2.0 -->\n<!-- {VERSION.search(header)[0]} -->\n")


def check():
    said = differences(RELEASED, HEADER.read_text())
    if said:
        print(said.strip())
        print("the C API is not what was released: functions, constants and fields are added, never changed or removed "
              "(docs/project/versions.md)")
        return 1
    print(f"C API: {len(FUNCTION.findall(HEADER.read_text()))} functions, compatible with what was released")
    return 0


# --- the check can fail

CHANGES = (
    # what becomes of the header: text, its replacement, what is said ("" for nothing)
    ("", "", ""),
    ("void tutti_group_free(tutti_group* group);", "", "tutti_group_free"),
    ("int32_t* threads);", "int64_t* threads);", "tutti_cpu_threads"),
    ("TUTTI_SHAPE_ERROR = 3,", "TUTTI_SHAPE_ERROR = 12,", "tutti_constant_TUTTI_SHAPE_ERROR"),
    ("TUTTI_U8 = 8\n", "TUTTI_U8 = 9\n", "tutti_constant_TUTTI_U8"),
    ("  double beta1; ", "  float beta1; ", "beta1"),
    ("  double weight_decay;", "  double early;\n  double weight_decay;", "tutti_place_tutti_optimizer_options_beta1"),
    ("double weight, tutti_step_function", "float weight, tutti_step_function", "tutti_group_step"),
    ("int64_t nesterov;     ///< sgd: 1 or 0\n", "", "nesterov"),
    ("#define TUTTI_C_API_VERSION 1", "#define TUTTI_C_API_VERSION 2", ""),
    ("const char* tutti_version(void);", "const char* tutti_version(void);\nvoid tutti_more(int32_t some);",
     "has to count what is added"),
)
ADDED = (("#define TUTTI_C_API_VERSION 1", "#define TUTTI_C_API_VERSION 2"),
         ("const char* tutti_version(void);", "const char* tutti_version(void);\nvoid tutti_more(int32_t some);"),
         ("  TUTTI_U8 = 8\n", "  TUTTI_U8 = 8,\n  TUTTI_F8 = 9\n"),
         ("} tutti_optimizer_options;", "  double later;\n} tutti_optimizer_options;"))


def self_test():
    header = HEADER.read_text()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        released = pathlib.Path(folder) / "released.abi"
        record(header, released)

        def expect(changed, words):
            said = differences(released, changed)
            right = words in said if words else said == ""
            if not right:
                print(f"self-test: expected '{words}', got: {said[:2000]}")
            return right

        for text, replacement, words in CHANGES:
            if text not in header:
                print(f"self-test: the header has no '{text}'")
                failed += 1
            elif not expect(header.replace(text, replacement, 1), words):
                print(f"  of '{text}' -> '{replacement}'")
                failed += 1
        for text, replacement in ADDED:
            header = header.replace(text, replacement, 1)
        failed += not expect(header, "")
    print(f"{len(CHANGES) + 1 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    actions = {"--check": check, "--record": lambda: record(HEADER.read_text(), RELEASED), "--self-test": self_test}
    if sys.argv[1:2] == [] or sys.argv[1] not in actions or len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    try:
        sys.exit(actions[sys.argv[1]]())
    except Fault as fault:
        sys.exit(f"c_abi: {fault}")
