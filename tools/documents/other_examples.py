#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what documents show that is no C++: Python and YAML are parsed, shell too, and the commands in it are there.

usage: other_examples.py --check   all documents but docs/decisions; tells faults by their lines, and counts blocks

Of a command it is checked that `./dev` or `tutti` has it, and that the option stands in its sources; in `code` within the text,
too. tools/dev/consumers.sh compiles blocks of further languages, of the documents that are named below. A block of any other
language is a fault, since nothing checks it. C++ is doc_examples.py's.
"""

import pathlib
import re
import subprocess
import sys

from doc_examples import FENCE as CPP, ROOT, documents

FENCE = re.compile(r"^(\s*)```\s*(\S*)\s*$")
COMPILED = {"c": "docs/c-api.md", "cmake": "docs/guides/embedding.md", "cuda": "docs/guides/custom-operation.md", "meson": "docs/guides/embedding.md"}
UNCHECKED = ("", "text")
# Where a command stands in shell: first in a line, after an operator, or after a word such as `then`.
COMMAND = re.compile(r"(?:^|[;&|(]|\b(?:do|then|else|exec)\b)[ \t]*(\./dev|tutti)[ \t]+((?:\\\n|[^\n;&|])*)", re.MULTILINE)
INLINE = re.compile(r"`(\./dev|tutti) ([^`\n;&|]+)`")
# Where options of a command stand, beside tools/dev/NAME.sh or command/NAME.
SOURCES = {
    "./dev bench": ("command/bench/*.py", "benches/peers/compare.py"),
    "./dev demo": ("examples/help/*.txt",),
    "./dev gpu": ("tools/dev/*gpu*.sh",),
    "./dev report": ("command/report/*.py",),
    "./dev test": ("tools/run_test_cases.py",),
}
YAML = "import sys, yaml; list(yaml.safe_load_all(sys.stdin))"


def blocks_of(text):
    """(line of the first line of code, language, code) of each block but C++, and the text without any block."""
    lines, blocks, rest, at = text.split("\n"), [], [], 0
    while at < len(lines):
        if not (fence := FENCE.match(lines[at])):
            rest.append(lines[at])
            at += 1
            continue
        end = next((i for i in range(at + 1, len(lines)) if lines[i].strip() == "```"), len(lines))
        if not CPP.match(lines[at]):
            blocks.append((at + 2, fence[2], "\n".join(line.removeprefix(fence[1]) for line in lines[at + 1:end]) + "\n"))
        rest += [""] * (end + 1 - at)
        at = end + 1
    return blocks, "\n".join(rest)


def subcommands():
    """The commands of `./dev` and of `tutti`."""
    dev = re.search(r"^  ((?:\w+ \| )+\w+)\)$", (ROOT / "dev").read_text(), re.MULTILINE)[1]
    others = re.findall(r'^    \{"(\w+)", "', (ROOT / "command/dispatch/other_command.cpp").read_text(), re.MULTILINE)
    return {"./dev": dev.split(" | "), "tutti": ["launch", *others]}


def sources_of(program, name):
    """What is read for the options of a command."""
    own = (f"tools/dev/{name}.sh",) if program == "./dev" else (f"command/{name}/*.cpp", f"command/{name}/*.py")
    paths = [path for pattern in own + SOURCES.get(f"{program} {name}", ()) for path in sorted(ROOT.glob(pattern))]
    return "\n".join(path.read_text() for path in paths)


def command_fault(program, words):
    """What is wrong with a command; empty if nothing is."""
    words = re.sub(r"[\[\]]|\\\n", " ", words.partition(" -- ")[0]).split()
    name = words[0].rstrip(":,.") if words else "-"
    if name.startswith("-") or name.isupper():  # an option of the program itself, or any command
        return ""
    if name not in (known := subcommands()[program]):
        return f"{program} has no command {name}: there are {', '.join(known)}"
    options = [word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word) and not re.match(r"--benchmark_|--help$|-h$", word)]
    text = sources_of(program, name)
    missing = [option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", text)]
    return f"{program} {name} has no {', '.join(missing)}" if missing else ""


def commands_of(pattern, text):
    """(line from 0 on, fault) of the commands that are wrong."""
    found = [(text.count("\n", 0, each.start(1)), command_fault(each[1], each[2])) for each in pattern.finditer(text)]
    return [(line, fault) for line, fault in found if fault]


def python_faults(code):
    try:
        compile(code, "block", "exec")
    except SyntaxError as error:
        return [((error.lineno or 1) - 1, f"Python: {error.msg}")]
    return []


def shell_faults(code):
    parsed = subprocess.run(["bash", "-n"], input=code, capture_output=True, text=True, env={"LC_ALL": "C"})
    if parsed.returncode != 0:
        told = re.match(r"bash: line (\d+): (.*)", parsed.stderr)
        return [(int(told[1]) - 1, f"shell: {told[2]}") if told else (0, f"shell: {parsed.stderr.strip()}")]
    text = re.sub(r"(^|\s)#.*", "", code, flags=re.MULTILINE)
    gone = [(text.count("\n", 0, each.start(1)), f"there is no {each[1]}") for each in re.finditer(r"(?<![\w/.-])(tools/[\w./]+)", text)
            if not (ROOT / each[1]).exists()]
    return gone + commands_of(COMMAND, text)


def python_with_yaml():
    """A Python that has PyYAML, which MkDocs brings; None if there is none."""
    each = (sys.executable, ROOT / "build/docs/bin/python3")
    return next((str(path) for path in each if pathlib.Path(path).exists() and subprocess.run([path, "-c", "import yaml"], capture_output=True).returncode == 0), None)


def yaml_faults(code, python):
    parsed = subprocess.run([python, "-c", YAML], input=code, capture_output=True, text=True)
    if parsed.returncode == 0:
        return []
    lines = re.findall(r"line (\d+)", parsed.stderr)
    return [(int(lines[-1]) - 1 if lines else 0, f"YAML: {' '.join(parsed.stderr.split('Error: ')[-1].split())}")]


def check_text(document, text, yaml_python):
    """Faults of a document, and the languages of its blocks that were checked and those that were not."""
    blocks, rest = blocks_of(text)
    # What was decided or changed once names what there was then.
    found = [] if document == "CHANGELOG.md" else [(line + 1, fault) for line, fault in commands_of(INLINE, rest)]
    checked, skipped = [], []
    checks = {"python": python_faults, "sh": shell_faults, "yaml": lambda code: yaml_faults(code, yaml_python)}
    for line, language, code in blocks:
        if language == "yaml" and not yaml_python:
            skipped.append(language)
        elif language in checks:
            checked.append(language)
            found += [(line + fault[0], fault[1]) for fault in checks[language](code)]
        elif language not in UNCHECKED and COMPILED.get(language) != document:
            found.append((line - 1, f"nothing checks a block of '{language}' here"))
    return [f"{document}:{line}: {fault}" for line, fault in sorted(found)], checked, skipped


def check():
    faults, checked, skipped, python = [], [], [], python_with_yaml()
    for path in documents():
        of_document = check_text(str(path.relative_to(ROOT)), path.read_text(), python)
        faults, checked, skipped = faults + of_document[0], checked + of_document[1], skipped + of_document[2]
    print(*faults, sep="\n", end="\n" if faults else "")
    counts = ", ".join(f"{checked.count(language)} {language}" for language in sorted(set(checked)))
    left_out = f", {len(skipped)} yaml skipped for want of PyYAML (tools/setup.sh docs)" if skipped else ""
    print(f"documents: blocks of {counts} are checked{left_out}, {len(faults)} faults")
    return 1 if faults else 0


def main(arguments):
    if arguments != ["--check"]:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    return check()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
