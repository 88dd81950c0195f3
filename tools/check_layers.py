#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the architecture: who may include whom, where third-party headers stay, sizes of folders, names and sizes of files.

Without arguments, checks the tree that this script lies in and prints `file:line: what is wrong`. With `--self-test`,
breaks every rule once in a temporary tree and expects each to be caught.
"""

import collections
import pathlib
import re
import sys

import layer_rules as rules

LISTED_OPERATION = re.compile(r"^ +'(\w+)': \[([^\]]*)\],?$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def source_files(root):
    """Paths relative to root, of everything that people write."""
    tops = [*rules.LAYERS, *rules.OUTER_FOLDERS, ".ci"]
    found = [path for top in tops for path in (root / top).rglob("*") if path.is_file()]
    found += [root / name for name in ("dev", "meson.build", "meson_options.txt", *rules.TOP_HEADERS) if (root / name).is_file()]
    return sorted(path.relative_to(root) for path in found if "__pycache__" not in path.parts)


def is_code(path):
    return path.suffix in rules.CODE_SUFFIXES


def includes(root, path):
    """(line number, bracket, header) of each include."""
    lines = (root / path).read_text(errors="replace").splitlines()
    matches = ((number, INCLUDE.match(line)) for number, line in enumerate(lines, 1))
    return [(number, match[1], match[2]) for number, match in matches if match]


def check_include(path, bracket, header, included):
    """What is wrong with one include, or None. `included`: what each file includes."""
    if bracket == '"':
        if rules.lies_in(path, rules.OTHERS_SOURCES):  # a header of theirs
            return None
        return f'write <tutti/...> instead of "{header}"'
    if not header.startswith("tutti/"):
        return rules.third_party_fault(path, header)
    ours = pathlib.PurePosixPath(header).relative_to("tutti")
    if str(path) == rules.UMBRELLA and any(map(rules.asks_for_a_library, included.get(str(ours), ()))):
        return f"<{header}> would ask every program for a library"

    def includes_of(each):
        return [pathlib.PurePosixPath(further).relative_to("tutti") for further in included.get(str(each), ())
                if further.startswith("tutti/")]

    return rules.project_include_fault(path, ours, includes_of)


def check_includes(root, files):
    found = {str(path): includes(root, path) for path in filter(is_code, files)}
    included = {path: [header for _, _, header in each] for path, each in found.items()}
    for path, each in found.items():
        for number, bracket, header in each:
            fault = check_include(pathlib.PurePosixPath(path), bracket, header, included)
            if fault:
                yield f"{path}:{number}: {fault}"


def check_cycles(root, files):
    """Headers that include each other, each cycle once."""
    graph = {
        str(path): [(number, header[len("tutti/"):]) for number, _, header in includes(root, path)
                    if header.startswith("tutti/")]
        for path in filter(is_code, files)
    }
    done, stack = set(), []

    def visit(path):
        if path in done:
            return
        stack.append(path)
        for number, target in graph.get(path, []):
            if target in stack:
                yield f"{path}:{number}: include cycle: {' -> '.join(stack[stack.index(target):] + [target])}"
            else:
                yield from visit(target)
        stack.pop()
        done.add(path)

    for path in graph:
        yield from visit(path)


NAMESPACE = re.compile(r"(?:inline )?namespace ?([\w:]*) ?(?:\[\[.*\]\] )?\{$")
DEFINITION = re.compile(r"(?:template <.*> )?(?:class|struct|union|enum(?: class)?) (?:\[\[.*\]\] )?(\w+)(?: final)?(?: : [^;]*)? \{")


def definitions(text):
    """(line number, qualified name) of each type that other sources could define, too."""
    inside = []
    for number, line in enumerate(text.splitlines(), 1):
        if opened := NAMESPACE.match(line):
            inside.append(opened[1])
        elif line.startswith("}  // namespace") and inside:
            inside.pop()
        elif (found := DEFINITION.match(line)) and inside and "" not in inside:
            yield number, "::".join([*inside, found[1]])


def check_definitions(root, files):
    """Two types of one name are one for the linker: it keeps one destructor of both, without a word."""
    first = {}
    for path in filter(is_code, files):
        if path.parts[0] not in rules.LAYERS:
            continue
        for number, name in definitions((root / path).read_text(errors="replace")):
            if name in first:
                yield f"{path}:{number}: {name} is the name of another type, too: {first[name]}"
            else:
                first[name] = f"{path}:{number}"


def check_names(files):
    for path in files:
        words = set(re.split(r"[._/-]", str(path).lower()))
        for word in sorted(words & rules.EMPTY_NAMES):
            yield f"{path}:1: '{word}' in a name says nothing; say what is in there"


def check_places(files):
    """Where files lie, and how many beside each other, meson.build apart."""
    count = collections.Counter(path.parent for path in files if path.name != "meson.build")
    for folder, number in sorted(count.items()):
        if not rules.may_hold(folder, number):
            yield f"{folder}:1: {number} files; at most {rules.MAX_FILES}, find the folders in it"
    for path in files:
        fault = rules.place_fault(path)
        if fault:
            yield f"{path}:1: {fault}"


def check_text(root, files):
    """Size and licence of each file that people write."""
    for path in files:
        is_script = path.name in ("dev", "run")
        if path.suffix not in rules.SIZED_SUFFIXES and not is_script and path.name != "meson.build":
            continue
        lines = (root / path).read_text(errors="replace").splitlines()
        if len(lines) > rules.MAX_LINES:
            yield f"{path}:{rules.MAX_LINES + 1}: {len(lines)} lines; at most {rules.MAX_LINES}, split it"
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
            yield f"{path}:1: no SPDX-License-Identifier on top"


def listed_operations(root):
    """(line number, name, places) of each operation in the list of their sources."""
    listing = root / rules.OPERATION_LIST
    lines = listing.read_text().splitlines() if listing.is_file() else []
    matches = ((number, LISTED_OPERATION.match(line)) for number, line in enumerate(lines, 1))
    return [(number, match[1], re.findall(r"'(\w+)'", match[2])) for number, match in matches if match]


def check_operations(root):
    """The list of operations says what there is."""
    for number, name, places in listed_operations(root):
        where = f"{rules.OPERATION_LIST}:{number}"
        if not places:
            yield f"{where}: '{name}' has a source in no folder"
        for place in places:
            source = rules.OPERATION_SOURCES.get(place, "").format(name)
            if not source:
                yield f"{where}: '{place}' is no folder of operations"
            elif not (root / source).is_file():
                yield f"{where}: there is no {source}"


def sources_of_operations(root):
    """Those that the list of operations names, in folders that take theirs from it."""
    for _, name, places in listed_operations(root):
        for place in filter(rules.OPERATION_SOURCES.__contains__, places):
            source = rules.OPERATION_SOURCES[place].format(name)
            taking = (root / source).parent / "meson.build"
            if taking.is_file() and f"operation_sources['{place}']" in taking.read_text():
                yield source


def check_listed(root, files):
    """A source or public header that no meson.build names is not compiled, tested or installed: nobody would notice."""
    operations = set(sources_of_operations(root))
    for path in files:
        if not rules.must_be_listed(path) or str(path) in operations:
            continue
        for folder in path.parents:
            listing = root / folder / "meson.build"
            if listing.is_file() and f"'{path.relative_to(folder)}'" in listing.read_text():
                break
        else:
            yield f"{path}:1: no meson.build lists it"


def check(root):
    files = source_files(root)
    return [
        *check_includes(root, files),
        *check_cycles(root, files),
        *check_definitions(root, files),
        *check_names(files),
        *check_places(files),
        *check_text(root, files),
        *check_operations(root),
        *check_listed(root, files),
    ]


def main():
    if sys.argv[1:] == ["--self-test"]:
        import layer_self_test
        return layer_self_test.run(check)
    if sys.argv[1:]:
        print(f"check_layers: unknown arguments {sys.argv[1:]}; there is --self-test", file=sys.stderr)
        return 2
    faults = check(pathlib.Path(__file__).resolve().parent.parent)
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"layers: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
