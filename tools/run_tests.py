#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every doctest executable of a build folder and counts test cases.

The last line is `N passed, N failed, N skipped`. A test case that did not finish, because its executable crashed or
ran out of time, has failed. An executable that fails after its last test case (a leak, a race) adds one failure.

--device runs the test cases that take any device on another kind (see tests/test_devices.h), or on CPU devices and on
CUDA devices: those of Meson's suite "devices". Without such a device they are skipped.

As many executables run at a time as there are cores; on CUDA devices, which they would share, one.

The status is 0, 1 if a test case failed or none was selected, and 2 for arguments that cannot be meant.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

from progress_line import ProgressLine
from test_course import Course

SELECTED = re.compile(r"^\[doctest\] unskipped test cases passing the current filters: (\d+)", re.MULTILINE)
PROGRESS = re.compile(r"\[progress\] (started (?P<name>.*)|(?P<result>passed|failed) in \S+ s)\n")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MAX_SHOWN = 20000
MOST_DEVICES = 8
# Of a test's suites in Meson, and how many devices it needs.
NEEDED_DEVICES = {"devices": 1, "many_devices": MOST_DEVICES, "gpus": 1}


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclasses.dataclass
class Result:
    counts: Counts
    failures: list = dataclasses.field(default_factory=list)
    seconds: float = 0
    text: str = ""  # its line, and what it wrote if it failed


def environment(device):
    """What a run on that kind of device is told. On CUDA, several devices on each GPU let groups of devices run."""
    added = {"TUTTI_TEST_DEVICE": device}
    if device == "cuda":
        added["TUTTI_CUDA_DEVICES_PER_GPU"] = os.environ.get("TUTTI_CUDA_DEVICES_PER_GPU", str(MOST_DEVICES))
    return os.environ | added


def name_of(test):
    """The executable's name, of an entry of Meson's list of tests."""
    return pathlib.Path(test["cmd"][0]).name


def selected_cases(command, selection, device):
    """How many test cases the filter selects: those that run, and with those that are marked as skipped."""
    counts = []
    for more in ([], ["--no-skip"]):
        listing = subprocess.run([*command, *selection, *more, "--count"], capture_output=True, text=True, timeout=60,
                                 env=environment(device))
        found = SELECTED.search(listing.stdout)
        if not found:
            raise RuntimeError(f"cannot list its test cases:\n{listing.stdout}{listing.stderr}")
        counts.append(int(found[1]))
    return counts


def run(command, timeout, device, heard=lambda line: None):
    """The status (None: out of time) and the whole output, of which `heard` gets each line as it comes."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                               env=environment(device) | {"TUTTI_TEST_PROGRESS": "1"}, text=True, errors="replace")
    late = threading.Event()

    def end():
        late.set()
        process.kill()

    deadline = threading.Timer(timeout, end)
    deadline.start()
    lines = []
    with process:
        for line in process.stdout:
            lines.append(line)
            heard(line)
    deadline.cancel()
    return None if late.is_set() else process.returncode, COLOUR.sub("", "".join(lines))


def passed_cases(output):
    return sum(event["result"] == "passed" for event in PROGRESS.finditer(output))


def failed_cases(output):
    """The names of those that failed, or were not finished."""
    names, running = [], None
    for event in PROGRESS.finditer(output):
        if event["result"] == "failed":
            names.append(running)
        running = event["name"]
    return names + [running] if running else names


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


@dataclasses.dataclass
class Selection:
    """An executable and the test cases of it that are to run: with_skipped is 0 if the filter selects nothing of it."""
    executable: pathlib.Path
    arguments: list
    runnable: int = 0
    with_skipped: int = 0
    priority: int = 0  # Meson's: the highest begin first
    lacking: str = ""  # why it cannot run: then its cases are skipped
    fault: str = ""

    @property
    def name(self):
        return self.executable.name


def select(test, device, lacking, options):
    """The Selection of an entry of Meson's list of tests."""
    arguments = [f"--test-case=*{options.filter}*"] if options.filter else []
    if options.any_device:
        arguments.append("--test-suite-exclude=cpu")
    selection = Selection(pathlib.Path(test["cmd"][0]), arguments, priority=test.get("priority", 0), lacking=lacking)
    try:
        selection.runnable, selection.with_skipped = selected_cases([*options.wrapper, selection.executable], arguments, device)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        selection.fault = str(error)
    return selection


def run_executable(selection, device, options, course):
    """Runs what is selected."""
    name = selection.name
    if selection.fault:
        return Result(Counts(failed=1), [name], text=f"{name}: {selection.fault}")
    if selection.lacking:
        counts = Counts(skipped=selection.with_skipped)
        return Result(counts, text=f"{name}: {counts}" + (f" ({selection.lacking})" if device == "cpu" else ""))
    course.begin(name)
    started = time.monotonic()
    status, output = run([*options.wrapper, selection.executable, *selection.arguments], options.timeout, device,
                         lambda line: course.hear(name, line))
    seconds = time.monotonic() - started
    course.end(name, seconds)

    passed = passed_cases(output)
    counts = Counts(passed, max(0, selection.runnable - passed), selection.with_skipped - selection.runnable)
    failures = failed_cases(output)
    if status != 0 and counts.failed == 0:
        counts.failed = 1
        failures.append(name)
    lines = [f"{name}: {counts} ({seconds:.1f} s)"]
    if counts.failed:
        lines.append(PROGRESS.sub("", output)[-MAX_SHOWN:])
        how = ending(status, output, options.timeout)
        if how:
            lines.append(f"{name} {how}")
    return Result(counts, failures, seconds, "\n".join(lines))


def lacking_devices(options, device, count):
    """Why this machine does not have so many devices; empty if it has."""
    if device == "cpu":
        return ""
    try:
        status, output = run([*options.wrapper, options.build / "tests/device_probe", str(count)], 60, device)
    except OSError as error:
        return str(error)
    if status in (0, 77):
        return output.strip()
    return f"the probe {ending(status, output, 60)}"


class Report:
    """What ran, by device and executable. Written after each, so that a run that is ended leaves what it has found."""

    def __init__(self, path):
        self.path = path
        self.devices = {}

    def add(self, device, name, result):
        self.devices.setdefault(device, {"lacking": "", "executables": {}})["executables"][name] = {
            **dataclasses.asdict(result.counts), "failures": result.failures, "seconds": round(result.seconds, 1)}
        self.write()

    def lacks(self, device, why):
        self.devices.setdefault(device, {"lacking": "", "executables": {}})["lacking"] = why
        self.write()

    def write(self):
        if self.path:
            self.path.write_text(json.dumps(self.devices, indent=1) + "\n")


def run_device(tests, device, options, report):
    """One kind of device; the results of the executables of which something was selected."""
    def runs_on_any(test):
        return any(part.split(":")[-1] in NEEDED_DEVICES for part in test["suite"])

    lacking = {suite: lacking_devices(options, device, count) for suite, count in NEEDED_DEVICES.items()}
    if device != "cpu" or options.any_device:
        tests = [test for test in tests if runs_on_any(test)]
    elif options.device == "both":
        tests = [test for test in tests if not any(part.endswith(":gpus") for part in test["suite"])]
    if device != "cuda":
        lacking["gpus"] = "it needs CUDA devices: --device cuda"
    if device == "foreign":
        lacking["many_devices"] = "no engine connects foreign devices"
    for why in dict.fromkeys(filter(None, lacking.values())):
        if device != "cpu":
            print(f"skipped on {device}: {why}", flush=True)
            report.lacks(device, why)

    def select_one(test):
        suites = [part.split(":")[-1] for part in test["suite"]]
        return select(test, device, next((lacking[suite] for suite in suites if lacking.get(suite)), ""), options)

    at_a_time = 1 if device == "cuda" else options.jobs
    line = ProgressLine(quiet=1.0)
    selections = []
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as jobs:
        for place, selection in enumerate(jobs.map(select_one, tests), 1):
            line.show(f"listing test cases: {place} of {len(tests)} programs")
            if selection.fault or selection.with_skipped:
                selections.append(selection)
    line.clear()
    selections.sort(key=lambda selection: (-selection.priority, -selection.runnable))  # so that the longest does not begin last
    return run_selections(selections, device, at_a_time, options, report)


def run_selections(selections, device, at_a_time, options, report):
    """So many at a time; their results, printed as they come."""
    mode = "-async" if os.environ.get("TUTTI_CPU_ASYNC") else ""
    course = Course(options.build / f"test-seconds-{device}{mode}.json", at_a_time)
    course.expect({selection.name: selection.runnable for selection in selections
                   if not selection.fault and not selection.lacking})
    results = []
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as jobs:
        running = {jobs.submit(run_executable, selection, device, options, course): selection.name
                   for selection in selections}
        try:
            while running:
                done, _ = concurrent.futures.wait(running, timeout=1, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    course.line.clear()
                    result, name = future.result(), running.pop(future)
                    print(result.text, flush=True)
                    results.append(result)
                    report.add(device, name, result)
                if running:
                    course.show()
        except BaseException:  # Ctrl-C: what has not begun does not
            jobs.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            course.line.clear()
    if not options.filter:
        course.keep()
    return results


def positive(text):
    if int(text) < 1:
        raise ValueError
    return int(text)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--filter", default="", help="part of a test case's name, in any case; * matches anything")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that one executable may take")
    parser.add_argument("--jobs", type=positive, default=os.cpu_count() or 1, help="how many run at a time; not on CUDA")
    parser.add_argument("--device", choices=["cpu", "cuda", "both", "foreign"], default="cpu",
                        help="where the test cases that take any device run")
    parser.add_argument("--any-device", action="store_true", help="on cpu too, only test cases that other kinds have")
    parser.add_argument("--only", default=[], type=str.split, help="names of executables")
    parser.add_argument("--leave-out", default=[], type=str.split, help="names of executables")
    parser.add_argument("--report", type=pathlib.Path, help="a JSON file for the counts and the names of what failed")
    parser.add_argument("--wrapper", default=[], type=str.split, help="a command in front of each executable")
    return parser.parse_args()


def main():
    options = parse_arguments()
    tests = json.loads((options.build / "meson-info/intro-tests.json").read_text())
    report = Report(options.report)
    known = {name_of(test) for test in tests}
    for option, given in (("--only", options.only), ("--leave-out", options.leave_out)):
        if unknown := sorted(set(given) - known):
            print(f"{option}: there is no {', '.join(unknown)} among {', '.join(sorted(known))}", file=sys.stderr)
            return 2
    names = set(options.only or known) - set(options.leave_out)
    tests = [test for test in tests if name_of(test) in names]
    results = []
    for device in ["cpu", "cuda"] if options.device == "both" else [options.device]:
        if options.device != "cpu":
            print(f"== on {device} devices", flush=True)
        results += run_device(tests, device, options, report)
    counts = sum((result.counts for result in results), Counts())
    nothing_ran = not results
    if nothing_ran:
        print(f"no test case matches '{options.filter}'" if options.filter else f"no tests in {options.build}")
    print(counts, flush=True)
    return 1 if counts.failed or nothing_ran else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ntesting was interrupted", file=sys.stderr)
        sys.exit(130)
