#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes several sources of tests as one, which takes the compiler half of the time (tests/meson.build).

    merge_tests.py OUTPUT SOURCE...

Each source keeps its names to itself: what it declares after its #includes gets a namespace of its own, also within
each namespace that it opens. A suite ends with the source that begins it. Messages and debuggers name the lines of the
sources.
"""

import pathlib
import re
import sys

OPENED = re.compile(r"namespace (?P<name>[a-z]\w*(?:::\w+)*) \{$")
OTHERWISE_OPENED = re.compile(r"(inline )?namespace [\w:]+ *(\{|$)")
CLOSED = re.compile(r"\}  // namespace [a-z]\w*(?:::\w+)*$")


def end_of_includes(path, lines):
    """How many lines there are up to the last #include before all else, and to the #endif that belongs to it."""
    end = depth = within = 0
    for number, line in enumerate(lines, 1):
        if line.startswith("#if"):
            depth += 1
        elif line.startswith("#endif"):
            depth -= 1
        elif line.startswith("#include"):
            within = depth
        elif line and not line.startswith(("//", "#")):
            break
        if line.startswith(("#include", "#endif")) and depth <= within:
            end = number
            within = min(within, depth)
    if within:
        sys.exit(f"{path}:{end}: this #include stands in an #if that does not end with the other #includes")
    return end


def own_names(path, number):
    """The lines of one source, with its own namespace around what it declares."""
    lines = pathlib.Path(path).read_text().splitlines()
    own, outer = f"source_{number}", ""
    end = end_of_includes(path, lines)
    result = [f'#line 1 "{path}"', *lines[:end], f"namespace {own} {{", f'#line {end + 1} "{path}"']
    for line in lines[end:]:
        if opened := OPENED.match(line):
            outer = opened["name"]
            line = f"}} namespace {outer} {{ namespace {own} {{ using namespace ::{own};"
        elif CLOSED.match(line):
            line = f"}}}} namespace {own} {{ using namespace {outer}::{own};"
        elif OTHERWISE_OPENED.match(line):
            sys.exit(f"{path}: '{line}' has to be a line 'namespace name {{', which '}}  // namespace name' closes")
        result.append(line)
    suites = [line for line in lines if line.startswith("TEST_SUITE_")]
    if suites and suites[-1].startswith("TEST_SUITE_BEGIN"):
        result.append("TEST_SUITE_END();")
    return [*result, "}"]


def main():
    output, *sources = sys.argv[1:]
    lines = [line for number, path in enumerate(sources) for line in own_names(path, number)]
    pathlib.Path(output).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
