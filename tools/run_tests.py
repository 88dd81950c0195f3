#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every doctest executable of a build folder and counts test cases.

The last line is `N passed, N failed, N skipped`. A test case that did not finish, because its executable crashed or
ran out of time, has failed. An executable that fails after its last test case (a leak, a race) adds one failure.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time

SELECTED = re.compile(r"^\[doctest\] unskipped test cases passing the current filters: (\d+)", re.MULTILINE)
PROGRESS = re.compile(r"\[progress\] (started (?P<name>.*)|(?P<result>passed|failed) in \S+ s)\n")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MAX_SHOWN = 20000


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def selected_cases(executable, selection):
    """How many test cases the filter selects: those that run, and with those that are marked as skipped."""
    counts = []
    for more in ([], ["--no-skip"]):
        listing = subprocess.run([executable, *selection, *more, "--count"], capture_output=True, text=True, timeout=60)
        found = SELECTED.search(listing.stdout)
        if not found:
            raise RuntimeError(f"cannot list its test cases:\n{listing.stdout}{listing.stderr}")
        counts.append(int(found[1]))
    return counts


def run(command, timeout):
    """The status (None: out of time) and the whole output."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                               env=os.environ | {"TUTTI_TEST_PROGRESS": "1"}, text=True, errors="replace")
    try:
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, COLOUR.sub("", output)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        return None, COLOUR.sub("", output)


def passed_cases(output):
    return sum(event["result"] == "passed" for event in PROGRESS.finditer(output))


def ending(status, output, timeout):
    """How an executable ended that did not reach its end, and in which test case; empty for one that did."""
    how = f"ran out of time after {timeout:g} s" if status is None else f"ended with status {status}"
    if status is not None and status < 0:
        how = f"was killed by signal {-status}"
    events = list(PROGRESS.finditer(output))
    unfinished = events[-1]["name"] if events else None
    if unfinished:
        return f'{how} in "{unfinished}"'
    return how if status not in (0, 1) else ""


def run_executable(executable, options):
    """Runs one executable, prints its line, and what it wrote if it failed. None: the filter selects nothing of it."""
    selection = [f"--test-case=*{options.filter}*"] if options.filter else []
    try:
        runnable, with_skipped = selected_cases(executable, selection)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print(f"{executable.name}: {error}", flush=True)
        return Counts(failed=1)
    if with_skipped == 0:
        return None
    started = time.monotonic()
    status, output = run([*options.wrapper, executable, *selection], options.timeout)
    seconds = time.monotonic() - started

    passed = passed_cases(output)
    counts = Counts(passed, max(0, runnable - passed), with_skipped - runnable)
    if status != 0 and counts.failed == 0:
        counts.failed = 1
    print(f"{executable.name}: {counts} ({seconds:.1f} s)", flush=True)
    if counts.failed:
        print(PROGRESS.sub("", output)[-MAX_SHOWN:], flush=True)
        how = ending(status, output, options.timeout)
        if how:
            print(f"{executable.name} {how}", flush=True)
    return counts


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--filter", default="", help="part of a test case's name, in any case; * matches anything")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that one executable may take")
    parser.add_argument("--wrapper", default=[], type=str.split, help="a command in front of each executable")
    return parser.parse_args()


def main():
    options = parse_arguments()
    tests = json.loads((options.build / "meson-info/intro-tests.json").read_text())
    results = [run_executable(pathlib.Path(test["cmd"][0]), options) for test in tests]
    counts = sum((result for result in results if result), Counts())
    nothing_ran = not any(results)
    if nothing_ran:
        print(f"no test case matches '{options.filter}'" if options.filter else f"no tests in {options.build}")
    print(counts, flush=True)
    return 1 if counts.failed or nothing_ran else 0


if __name__ == "__main__":
    sys.exit(main())
