#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps what docs/guides/embedding.md promises to programs that embed the library.

usage: host_rules.py --check       the table "Variables of the environment" has the variables that the library's sources
                                   read, all of them and no others; standard output and error, signals and floating-point
                                   modes are touched where the document says so and nowhere else
       host_rules.py --self-test
"""

import pathlib
import re
import sys
import tempfile

import layer_rules

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = "docs/guides/embedding.md"
TABLE = "### Variables of the environment"
LAYERS = [layer for layer in layer_rules.LAYERS if layer != "command"]
SUFFIXES = (".h", ".cpp", ".cu", ".cuh")

NAME = r"[A-Za-z][A-Za-z0-9_]*"
READS = re.compile(r"\b(?:secure_getenv|getenv|environment_text|environment_number|environment_switch|EnvironmentReader)\b")
# Names that readers are given, and words with an underscore in capitals, as lists of names have them, in a file that reads.
GIVEN = re.compile(rf'\b(?:secure_getenv|getenv|environment\w*|text|text_or_empty|number|number_or)\(\s*"({NAME})"')
LISTED = re.compile(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+_?)"')
CALL = re.compile(r"\b(?:secure_getenv|getenv)\(|\benviron\b")
# Reads what others name.
READERS = {"backend/process/environment.cpp"}

# What else a host keeps to itself: the words that touch it, and the files that may.
KEPT = {
    "standard output and error": (
        re.compile(r"\b(?:stdout|stderr|STDOUT_FILENO|STDERR_FILENO|perror|puts|printf)\b|std::(?:cout|cerr|clog)\b|"
                   r"\bfmt::print\((?!\s*\w*file)"),
        {"backend/process/log.cpp", "backend/process/progress.cpp", "bench/suite/suite.cpp", "backend/processor/processor_check.cpp", "train/hooks/stop_on_interrupt.cpp",
         "train/reporting/writers/console_writer.cpp"}),
    "signals": (
        re.compile(r"\bsigaction\(|\bstd::signal\(|(?<![\w.>:])signal\(\s*SIG|\bsigprocmask\(|\bpthread_sigmask\(|"
                   r"\bstd::raise\(|\bsigaltstack\("),
        {"train/hooks/stop_on_interrupt.cpp", "distributed/processes/control_channel.cpp"}),
    "floating-point modes": (
        re.compile(r"\b(?:fesetround|fesetenv|feupdateenv|feholdexcept|feenableexcept|fedisableexcept|feclearexcept|"
                   r"_mm_setcsr|_MM_SET_\w+|__builtin_ia32_ldmxcsr)\b"),
        set()),
    "locale, time zone and environment": (
        re.compile(r"\b(?:setlocale|tzset|setenv|unsetenv|putenv)\(|std::locale::global"), set()),
}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def sources(root):
    """(path as text, code without comments) of each of the library's sources."""
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*")):
            if path.suffix in SUFFIXES:
                text = path.read_text()
                yield str(path.relative_to(root)), COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)


def names_read(text):
    """The variables that a source reads, if it reads any."""
    return {*GIVEN.findall(text), *LISTED.findall(text)} if READS.search(text) else set()


def names_documented(text):
    """The names in the first column of the document's table."""
    _, _, rest = text.partition(TABLE + "\n")
    section = re.split(r"^#{1,3} ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(rf"`({NAME})`", row.split("|")[1])}


def faults(root):
    read = {}
    for path, code in sources(root):
        names = names_read(code)
        for name in names:
            read.setdefault(name, path)
        if CALL.search(code) and not names and path not in READERS:
            yield f"{path}: reads the environment, of which no name is seen here: {DOCUMENT} has to know it"
        for what, (words, allowed) in KEPT.items():
            if path in allowed:
                continue
            for number, line in enumerate(code.splitlines(), 1):
                if words.search(line):
                    yield f"{path}:{number}: {what} are the host program's: {line.strip()[:80]}"
    documented = names_documented((root / DOCUMENT).read_text())
    for name in sorted(read.keys() - documented):
        yield f"{read[name]}: reads {name}, which is not in the table \"{TABLE.strip('# ')}\" of {DOCUMENT}"
    for name in sorted(documented - read.keys()):
        yield f"{DOCUMENT}: {name} is in the table, and no source reads it"


def check(root):
    count = 0
    for fault in faults(root):
        print(fault)
        count += 1
    print(f"host rules: {count} faults")
    return 1 if count else 0


def self_test():
    document = f"# Embed\n\n{TABLE}\n\n| variable | read |\n| --- | --- |\n| `A_B`, `CI` | x `Z_Z` |\n\n## Left\n\n| `C_D` |\n"
    cases = [
        ({}, ["A_B is in the table", "CI is in the table"]),
        ({"backend/a.cpp": 'std::getenv("A_B"); environment("CI");'}, []),
        ({"backend/a.cpp": 'kNames[] = {"A_B"}; getenv(name);', "train/b.h": 'environment_switch("CI")'}, []),
        ({"backend/a.cpp": 'getenv("A_B"); text("CI"); text_or_empty("X_y")'}, ["reads X_y"]),
        ({"backend/a.cpp": 'std::getenv("A_B"), environment_text("CI")', "nn/b.cpp": "getenv(name)"}, ["no name is seen"]),
        ({"backend/a.cpp": 'getenv("A_B"); environment("CI"); // stderr, getenv("NO_NAME")'}, []),
        ({"backend/a.cpp": 'getenv("A_B"); environment("CI");', "nn/b.cpp": 'std::fprintf(stderr, "x");'}, ["nn/b.cpp:1: standard"]),
        ({"backend/a.cpp": 'getenv("A_B"); environment("CI");', "nn/b.cpp": "int x;\nfesetround(FE_UPWARD);"}, ["nn/b.cpp:2: floating"]),
        ({"backend/a.cpp": 'getenv("A_B"); environment("CI");', "optim/b.cpp": "::sigaction(SIGINT, &a, nullptr);"}, ["signals"]),
        ({"backend/a.cpp": 'getenv("A_B"); environment("CI"); snprintf(text, 3, "x"); event.signal(); stderr_of(x);'}, []),
        ({"backend/a.cpp": 'getenv("A_B"); environment("CI"); "NO_READER";', "nn/b.cpp": '"NOT_READ"'}, ["reads NO_READER"]),
        ({"backend/a.cpp": 'getenv("A_B"); environment("CI");', "command/b.cpp": 'getenv("C_D"); puts("x");'}, []),
    ]
    failed = 0
    for number, (files, expected) in enumerate(cases):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {**files, DOCUMENT: document}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            found = list(faults(root))
        if len(found) != len(expected) or not all(part in line for part, line in zip(expected, found)):
            print(f"case {number}: {found} in place of {expected}")
            failed += 1
    print(f"{len(cases) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:] == ["--check"]:
        return check(ROOT)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
