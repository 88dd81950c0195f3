#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes C++ sources of the ```cpp blocks of a document, so that the compiler reads what users read, and runs those that print.

usage: doc_examples.py DOCUMENT FRAGMENTS PROGRAMS PRINTING   writes the three sources: of what
                                        stands within the frame, of whole programs, of what prints
       doc_examples.py --check          every document with such blocks is compiled, each block that prints says what; counts blocks
       doc_examples.py --run PROGRAM    runs the blocks that print, which PROGRAM (tests/documents/printing.h) is made of, and
                                        compares; the last line is `N passed, N failed, N skipped`

A block is the body of a function in `namespace tutti`, after the frame (tests/documents/frame.h), unless a comment right
above it says otherwise:

    <!-- compile: program -->            a whole source, with its own #include lines and nothing else
    <!-- compile: declarations -->       at namespace scope, not within a function
    <!-- compile: continues -->          goes on in the function of the block before
    <!-- compile: skip WHY NOT -->       is not compiled

The comment may go on with lines of C++ that readers do not see, #include lines and declarations that stand in front of
the block (for `continues`: in front of its text). A line of which everything but a comment is `...` counts as left out.

What a block prints stands behind it, before the next block and the next heading:

    <!-- prints -->                      and the output, a block of its own; `...` in a line stands for anything
    <!-- prints what differs: WHY -->    it is not run

It runs in an empty folder, in which `examples` is the project's, and uses nothing that the frame only declares.
"""

import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FRAME = "tutti/tests/documents/frame.h"
PRINTING_HEADER = "tutti/tests/documents/printing.h"
LISTING = "tests/documents/meson.build"
FENCE = re.compile(r"^(\s*)```\s*(cpp|c\+\+|cc|cxx)\s*$", re.IGNORECASE)
MARK = re.compile(r"<!--\s*compile:\s*(\S+)[ \t]*([^\n]*?)[ \t]*(\n.*)?-->\s*\Z", re.DOTALL)
ELIDED = re.compile(r"^(\s*)\.\.\.(\s*(//.*)?)$")
# A list that makes something of a macro stays where it is included.
INCLUDE = re.compile(r"^\s*#\s*include\b(?!.*/(?:kernel|operation)_list\.h)")
PRINTS = re.compile(r"^<!--\s*prints(?: what differs:\s*(.*?))?\s*-->$")
PRINTING = re.compile(r"\bstd::(cout|puts|printf)\b|\bfmt::print\b")
MAIN = re.compile(r"^int main\(.*?^(?=\})", re.MULTILINE | re.DOTALL)
SECONDS = 60  # that a block may run, on a busy machine

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
    printed: list = None  # lines; None: it prints nothing, or what differs
    differs: str = ""  # why


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
        blocks[-1].printed, blocks[-1].differs = printed_behind(document, lines, closing + 1)
        at = closing + 1
    return blocks


def printed_behind(document, lines, at):
    """What the block before line `at` prints, and why it differs."""
    for number in range(at, len(lines)):
        if lines[number].startswith("#") or FENCE.match(lines[number]):
            break
        if not (mark := PRINTS.match(lines[number].strip())):
            continue
        if mark[1] is not None:
            if not mark[1]:
                raise Fault(f"{document}:{number + 1}: prints what differs wants the reason")
            return None, mark[1]
        fences = [i for i in range(number + 1, len(lines)) if lines[i].startswith("```")][:2]
        if len(fences) < 2 or any(lines[number + 1:fences[0]]) or FENCE.match(lines[fences[0]]):
            raise Fault(f"{document}:{number + 1}: prints, but no block with the output follows")
        return lines[fences[0] + 1:fences[1]], ""
    return None, ""


def space_of(block):
    """The namespace of a document's blocks: programs see nothing of the library that they do not name."""
    frame = "" if block.kind == "program" else "tutti::documents::"
    return f"{frame}of_{re.sub(r'[^0-9A-Za-z]', '_', block.document)}"


def source_lines(block):
    """Its code without includes and with what is left out as empty lines; errors name the document's lines."""
    text = [ELIDED.sub(r"\1\2", line) if not INCLUDE.match(line) else "" for line in block.code]
    return [f'#line {block.line} "{block.document}"', *text]


def includes_of(block):
    return [line.strip() for line in [*block.given.split("\n"), *block.code] if INCLUDE.match(line)]


def given_of(block):
    return "\n".join(line for line in block.given.split("\n") if not INCLUDE.match(line))


@dataclasses.dataclass
class Run:
    """A program, or a function with what continues it, that prints."""

    where: str  # of its first line of code
    numbers: list  # of its blocks, among programs or fragments
    function: str
    printed: list


def split(blocks):
    """(fragments, programs): what is compiled within the frame, and what is a whole source."""
    return ([block for block in blocks if block.kind not in ("program", "skip")], [block for block in blocks if block.kind == "program"])


def runs_of(blocks):
    """All runs of a document."""
    in_frame, whole = split(blocks)
    runs = []
    for number, block in enumerate(in_frame):
        if block.kind == "continues":
            runs[-1].numbers.append(number)
            runs[-1].printed += block.printed or []
        else:
            runs.append(Run(f"{block.document}:{block.line}", [number], f"{space_of(block)}::block_{number}::run", [*(block.printed or [])]))
    runs += [Run(f"{block.document}:{block.line}", [number], f"{space_of(block)}::program_{number}::main", block.printed or []) for number, block in enumerate(whole)]
    return [run for run in runs if run.printed]


def fragments(blocks, wanted=None):
    """The source of blocks that are no programs: of all, or of those with the wanted numbers."""
    chosen = [(number, block) for number, block in enumerate(split(blocks)[0]) if wanted is None or number in wanted]
    includes = dict.fromkeys(line for _, block in chosen for line in includes_of(block))
    text, open_function = [f"#include <{FRAME}>", *includes], False
    for number, block in chosen:
        if open_function and block.kind != "continues":
            text += ["}", "}"]
        if block.kind != "continues":
            text += [f"namespace {space_of(block)}::block_{number} {{", given_of(block)]
            text += ["void run() {"] if block.kind == "function" else []
        else:
            text += [given_of(block)]
        text += source_lines(block)
        open_function = block.kind != "declarations"
        text += [] if open_function else ["}"]
    return "\n".join([*text, *(["}", "}"] if open_function else []), ""])


def programs(blocks, wanted=None):
    """The source of whole programs, each in a namespace of its own: of all, or of those with the wanted numbers."""
    chosen = [(number, block) for number, block in enumerate(split(blocks)[1]) if wanted is None or number in wanted]
    text = [line for _, block in chosen for line in includes_of(block)]
    for number, block in chosen:
        text += [f"namespace {space_of(block)}::program_{number} {{", given_of(block), *source_lines(block), "}"]
    return "\n".join([*text, ""])


def printing(blocks):
    """The source of what runs, known to the program by its place."""
    runs = runs_of(blocks)
    in_frame = {number for run in runs if not run.function.endswith("::main") for number in run.numbers}
    whole = {number for run in runs if run.function.endswith("::main") for number in run.numbers}
    # Only of the program's own main may the end be left without a return.
    text = [MAIN.sub(lambda main: main[0] + "  return 0;\n", programs(blocks, whole))]
    if in_frame:
        declared = {number for number, block in enumerate(split(blocks)[0]) if block.kind == "declarations"}
        text.append(fragments(blocks, in_frame | declared))
    text += [f"#include <{PRINTING_HEADER}>", "namespace {"]
    text += [f'const tutti::documents::Printing printing_{number}("{run.where}", [] {{ return tutti::documents::status_of({run.function}); }});'
             for number, run in enumerate(runs)]
    return "\n".join([*text, "}  // namespace", ""])


def documents():
    """The documents that may have such blocks. Not docs/decisions, which are of their day."""
    found = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
    return [path for path in found if not path.is_relative_to(ROOT / "docs/decisions")]


def difference(expected, printed):
    """The first line in which the output is another one; empty if there is none."""
    printed = printed.rstrip("\n").split("\n")
    for number in range(max(len(expected), len(printed))):
        wanted = expected[number] if number < len(expected) else None
        found = printed[number].rstrip() if number < len(printed) else None
        if wanted is None or found is None or not re.fullmatch(".*".join(map(re.escape, wanted.rstrip().split("..."))), found):
            return f"line {number + 1} is {found!r}, not {wanted!r}"
    return ""


def run_printing(program, run):
    """What is wrong with a run; empty if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "examples").symlink_to(ROOT / "examples")
        try:
            done = subprocess.run([program, run.where], cwd=folder, capture_output=True, text=True, timeout=SECONDS, errors="replace")
        except subprocess.TimeoutExpired:
            return f"does not end within {SECONDS} s"
    if done.returncode != 0:
        return f"ends with status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
    return difference(run.printed, done.stdout)


def run_all(program):
    passed = failed = 0
    for path in documents():
        for run in runs_of(blocks_of(str(path.relative_to(ROOT)), path.read_text())):
            wrong = run_printing(program, run)
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print(f"{run.where}: {wrong}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


def check():
    """Faults of all documents, and how many blocks they have; prints both."""
    listing = (ROOT / LISTING).read_text()
    faults, compiled, skipped, run = [], 0, 0, 0
    for path in documents():
        document = str(path.relative_to(ROOT))
        try:
            blocks = blocks_of(document, path.read_text())
        except Fault as fault:
            faults.append(str(fault))
            continue
        if blocks and f"'{document}'" not in listing:
            faults.append(f"{document}:{blocks[0].line}: {LISTING} does not list this document, so its C++ is not compiled")
        faults += [f"{document}:{block.line}: this prints, and no `<!-- prints -->` behind it says what" for block in blocks
                   if block.printed is None and not block.differs and PRINTING.search("\n".join(block.code))]
        skipped += sum(block.kind == "skip" for block in blocks)
        compiled += sum(block.kind != "skip" for block in blocks)
        run += len(runs_of(blocks))
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"documents: {compiled} blocks are compiled, {skipped} are marked as not to be, {run} are run, {len(faults)} faults")
    return 1 if faults else 0


def main(arguments):
    if arguments == ["--check"]:
        return check()
    if len(arguments) == 2 and arguments[0] == "--run":
        return run_all(pathlib.Path(arguments[1]).resolve())
    if len(arguments) != 4 or arguments[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    path = pathlib.Path(arguments[0]).resolve()
    document = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    try:
        blocks = blocks_of(document, path.read_text())
    except Fault as fault:
        print(f"doc_examples: {fault}", file=sys.stderr)
        return 1
    silent = {number for number, block in enumerate(split(blocks)[1]) if block.printed is None}
    for output, text in zip(arguments[1:], (fragments(blocks), programs(blocks, silent), printing(blocks))):
        pathlib.Path(output).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
