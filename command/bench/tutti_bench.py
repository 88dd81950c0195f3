#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program behind `tutti bench`, and what `./dev bench` runs.

usage: tutti bench [FILTER] [--output FOLDER] [--benchmark_OPTION...]
       tutti bench --list [FILTER]
       tutti bench compare [--gate PERCENT] OLD NEW
       tutti bench history FILE_OR_FOLDER...

  FILTER            a regular expression: only benches whose name matches it
  --output FOLDER   where the run's file goes (runs/bench)
  --benchmark_...   goes to Google Benchmark: --benchmark_repetitions=10, --benchmark_min_time=0.1, ...
  --list            the names of the benches, and nothing is run
  compare           two files of earlier runs: ratios of medians, and which differences are more than chance (files are
                    paths or names in runs/bench; both need repetitions)
  history           what benches took in one run after the other

Each run measures what one core can do, multiply-adds and copies, shows figures beside that, and writes a file of its own,
runs/bench/TIME-COMMIT.json, with the machine in its context. An interrupted run keeps what had finished.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Where they lie in the sources, and where they are installed.
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools"), str(HERE / "bench")]
sys.dont_write_bytecode = True

import bench_history  # noqa: E402
import compare_benches  # noqa: E402
import run_benches  # noqa: E402


class BadWords(Exception):
    pass


def parse(words):
    """Options of a run, by name."""
    options = {"filter": "", "list": False, "check": False, "output": None, "programs": str(HERE / "bench"), "passed": []}

    def set_filter(text):
        if options["filter"]:
            raise BadWords(f"one filter at most, not '{options['filter']}' and '{text}'")
        options["filter"] = text

    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in ("--output", "--programs"):
            options[name[2:]] = value if equals else next(rest, "")
            if not options[name[2:]]:
                raise BadWords(f"{name} needs a folder")
        elif word == "--check":  # of ./dev bench: nothing but these words is looked at
            options["check"] = True
        elif word in ("--list", "--benchmark_list_tests", "--benchmark_list_tests=true"):
            options["list"] = True
        elif name in ("--benchmark_out", "--benchmark_out_format"):
            raise BadWords(f"'{word}': each run writes runs/bench/TIME-COMMIT.json; --output names another folder")
        elif name == "--benchmark_filter" and value:
            set_filter(value)
        elif name.startswith("--benchmark_"):
            options["passed"].append(word)
        elif word.startswith("-"):
            raise BadWords(f"unknown option '{word}'")
        else:
            set_filter(word)
    return options


def main(words):
    if words[:1] == ["compare"]:
        return compare_benches.main(words[1:])
    if words[:1] == ["history"]:
        return bench_history.main(words[1:])
    if "-h" in words or "--help" in words:
        print(__doc__.partition("\n\n")[2].strip())
        return 0
    try:
        options = parse(words)
    except BadWords as bad:
        print(f"bench: {bad}; --help lists the options", file=sys.stderr)
        return 2
    if options["check"]:
        return 0
    programs = pathlib.Path(options["programs"])
    if not (programs / run_benches.LIMITS).is_file():
        print(f"bench: the library's benches are not in {programs}: they are installed where it was configured with "
              "-Ddefault_library=shared or both, and -Dbenches=true", file=sys.stderr)
        return 1
    output = compare_benches.from_caller(options["output"]) if options["output"] else pathlib.Path("runs/bench")
    try:
        if not options["list"]:
            output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"bench: cannot make the folder {output}: {error.strerror}", file=sys.stderr)
        return 1
    return run_benches.run(programs, options["filter"] or ".", options["list"], output, options["passed"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
