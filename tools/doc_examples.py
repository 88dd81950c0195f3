#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes C++ sources of the ```cpp blocks of a document, so that the compiler reads what users read.

usage: doc_examples.py DOCUMENT FRAGMENTS PROGRAMS   writes the two sources
       doc_examples.py --check                       every document with such blocks is compiled; counts blocks

A block is the body of a function in `namespace tutti`, after the frame (tests/documents/frame.h), unless a comment right
above it says otherwise:

    <!-- compile: program -->            a whole source, with its own #include lines and nothing else
    <!-- compile: declarations -->       at namespace scope, not within a function
    <!-- compile: continues -->          goes on in the function of the block before
    <!-- compile: skip WHY NOT -->       is not compiled

The comment may go on with lines of C++ that readers do not see, #include lines and declarations that stand in front of
the block (for `continues`: in front of its text). A line of which everything but a comment is `...` counts as left out.
"""

import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FRAME = "tutti/tests/documents/frame.h"
LISTING = "tests/documents/meson.build"
FENCE = re.compile(r"^(\s*)```\s*(cpp|c\+\+|cc|cxx)\s*$", re.IGNORECASE)
MARK = re.compile(r"<!--\s*compile:\s*(\S+)[ \t]*([^\n]*?)[ \t]*(\n.*)?-->\s*\Z", re.DOTALL)
ELIDED = re.compile(r"^(\s*)\.\.\.(\s*(//.*)?)$")
# A list that makes something of a macro stays where it is included.
INCLUDE = re.compile(r"^\s*#\s*include\b(?!.*/(?:kernel|operation)_list\.h)")
KINDS = ("function", "program", "declarations", "continues", "skip")


class Fault(Exception):
    pass


@dataclasses.dataclass
class Block:
    document: str
    line: int  # of its first line of code, from 1 on
    kind: str
    note: str  # why it is skipped
    given: str
    code: list


def mark_above(document, lines, fence):
    """Kind, note and given code, of the comment that ends on the last line that is not empty above the fence."""
    text = "\n".join(lines[:fence]).rstrip()
    start = text.rfind("<!--")
    found = MARK.match(text[start:]) if start >= 0 and text.endswith("-->") else None
    if not found:
        return "function", "", ""
    kind, note, given = found[1], found[2].strip(), (found[3] or "").strip("\n")
    where = f"{document}:{fence + 1}"
    if kind not in KINDS:
        raise Fault(f"{where}: compile: {kind}? There are {', '.join(KINDS)}")
    if kind == "skip" and not note:
        raise Fault(f"{where}: compile: skip wants the reason")
    if kind != "skip" and note:
        raise Fault(f"{where}: '{note}' after compile: {kind}; code goes onto lines of its own")
    return kind, note, given


def blocks_of(document, text):
    """The blocks of a document, in order."""
    lines, blocks, at = text.split("\n"), [], 0
    while at < len(lines):
        if not (fence := FENCE.match(lines[at])):
            at += 1
            continue
        closing = next((i for i in range(at + 1, len(lines)) if lines[i].strip() == "```"), None)
        if closing is None:
            raise Fault(f"{document}:{at + 1}: the block has no end")
        code = [line.removeprefix(fence[1]) for line in lines[at + 1:closing]]
        blocks.append(Block(document, at + 2, *mark_above(document, lines, at), code))
        if blocks[-1].kind == "continues" and (len(blocks) < 2 or blocks[-2].kind not in ("function", "continues")):
            raise Fault(f"{document}:{at + 1}: compile: continues, but the block before is no function")
        at = closing + 1
    return blocks


def source_lines(block):
    """Its code without includes and with what is left out as empty lines; errors name the document's lines."""
    text = [ELIDED.sub(r"\1\2", line) if not INCLUDE.match(line) else "" for line in block.code]
    return [f'#line {block.line} "{block.document}"', *text]


def includes_of(block):
    return [line.strip() for line in [*block.given.split("\n"), *block.code] if INCLUDE.match(line)]


def given_of(block):
    return "\n".join(line for line in block.given.split("\n") if not INCLUDE.match(line))


def fragments(blocks):
    """The source of all blocks that are no programs."""
    chosen = [block for block in blocks if block.kind not in ("program", "skip")]
    includes = dict.fromkeys(line for block in chosen for line in includes_of(block))
    text, open_function = [f"#include <{FRAME}>", *includes], False
    for number, block in enumerate(chosen):
        if open_function and block.kind != "continues":
            text += ["}", "}"]
        if block.kind != "continues":
            text += [f"namespace tutti::documents::block_{number} {{", given_of(block)]
            text += ["void run() {"] if block.kind == "function" else []
        else:
            text += [given_of(block)]
        text += source_lines(block)
        open_function = block.kind != "declarations"
        text += [] if open_function else ["}"]
    return "\n".join([*text, *(["}", "}"] if open_function else []), ""])


def programs(blocks):
    """The source of all whole programs, each in a namespace of its own."""
    chosen = [block for block in blocks if block.kind == "program"]
    text = [line for block in chosen for line in includes_of(block)]
    for number, block in enumerate(chosen):
        text += [f"namespace program_{number} {{", given_of(block), *source_lines(block), "}"]
    return "\n".join([*text, ""])


def check():
    """Faults of all documents, and how many blocks they have; prints both."""
    listing = (ROOT / LISTING).read_text()
    faults, compiled, skipped = [], 0, 0
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]):
        document = str(path.relative_to(ROOT))
        if document.startswith("docs/decisions/"):  # of their day
            continue
        try:
            blocks = blocks_of(document, path.read_text())
        except Fault as fault:
            faults.append(str(fault))
            continue
        if blocks and f"'{document}'" not in listing:
            faults.append(f"{document}:{blocks[0].line}: {LISTING} does not list this document, so its C++ is not compiled")
        skipped += sum(block.kind == "skip" for block in blocks)
        compiled += sum(block.kind != "skip" for block in blocks)
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"documents: {compiled} blocks are compiled, {skipped} are marked as not to be, {len(faults)} faults")
    return 1 if faults else 0


def main(arguments):
    if arguments == ["--check"]:
        return check()
    if len(arguments) != 3 or arguments[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    path = pathlib.Path(arguments[0]).resolve()
    document = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    try:
        blocks = blocks_of(document, path.read_text())
    except Fault as fault:
        print(f"doc_examples: {fault}", file=sys.stderr)
        return 1
    pathlib.Path(arguments[1]).write_text(fragments(blocks))
    pathlib.Path(arguments[2]).write_text(programs(blocks))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
