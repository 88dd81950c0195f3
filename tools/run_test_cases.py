#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the test cases of one doctest program, several processes at a time, and goes on behind what breaks one.

A test case that crashes its process, hangs or leaves the GPU unusable has failed; those behind it run in a new process.
An error of the GPU that a test case finds but did not make is told of the one before it. What there was no time for is
counted as not run. The report has the format of tools/run_tests.py, by folder of the tests.

What stands behind -- goes to doctest: its filters.

The status is 0, 1 if a test case failed or none was selected, and 124 if there was no time for all.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

from run_tests import COLOUR, Counts, Report, Result, environment, positive

STARTED = re.compile(r"\[progress\] started (.*)\n")
ENDED = re.compile(r"\[progress\] (passed|failed) in (\S+) s\n")
# After these a process can use its GPU no more.
BROKEN_GPU = re.compile(
    r"cudaError(IllegalAddress|LaunchFailure|MisalignedAddress|IllegalInstruction|InvalidPc|InvalidAddressSpace|Assert|"
    r"HardwareStackError|LaunchTimeout|ECCUncorrectable|ExternalDevice|Unknown)\b")
MAX_SHOWN = 4000
RUNNING = set()  # processes


@dataclasses.dataclass
class Case:
    name: str
    folder: str
    result: str = ""  # passed or failed; empty while it has not run
    seconds: float = 0
    output: str = ""  # of one that failed

    def fail(self, output):
        self.result, self.output = "failed", output


def listed(options, *more):
    """The cases that the filters select, in the order in which they run."""
    command = [options.program, *options.filters, "--list-test-cases", "--reporters=xml", *more]
    output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                            env=environment(options.device)).stdout
    cases = []
    for case in xml.etree.ElementTree.fromstring(output[output.index("<?xml"):]).iter("TestCase"):
        folder = re.search(r"tests/(\w+)/", case.get("filename"))
        cases.append(Case(case.get("name"), folder[1] if folder else "tests"))
    return cases


class Process:
    """One process that runs the cases from `first` to the end of `cases`, and ends with them or before."""

    def __init__(self, options, cases, first, number, end):
        self.options, self.cases, self.first, self.number, self.end_of_all = options, cases, first, number, end
        self.at = first
        self.running = False
        self.ended = ""  # why it was killed
        self.lines = []
        self.case_began = time.monotonic()

    def run(self):
        """Gives results to cases. Returns the place of the first that has none yet and may have one."""
        command = [*self.options.wrapper, self.options.program, *self.options.filters,
                   f"--first={self.number + self.first}", f"--last={self.number + len(self.cases) - 1}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              env=environment(self.options.device) | {"TUTTI_TEST_PROGRESS": "1"}, text=True,
                              errors="replace", start_new_session=True) as process:
            RUNNING.add(process)
            done = threading.Event()
            watch = threading.Thread(target=self.watch, args=(process, done))
            watch.start()
            whole = []
            for line in process.stdout:
                whole.append(line)
                if not self.ended:
                    self.hear(line, process)
            process.wait()
            done.set()
            watch.join()
        kill(process)  # what it left running
        RUNNING.discard(process)
        if self.options.outputs:
            name = f"{self.number + self.first:04}.txt"
            (self.options.outputs / name).write_text("".join(whole))
        return self.close(process.returncode)

    def hear(self, line, process):
        self.lines.append(COLOUR.sub("", line))
        if STARTED.fullmatch(line):
            self.running, self.lines, self.case_began = True, [], time.monotonic()
        elif found := ENDED.fullmatch(line):
            case, output = self.cases[self.at], "".join(self.lines[:-1])
            self.running, self.lines, self.case_began = False, [], time.monotonic()
            case.seconds = float(found[2])
            if found[1] == "passed":
                case.result = "passed"
            elif BROKEN_GPU.search(output):
                self.ended = "the GPU was unusable"
                kill(process)
                self.break_gpu(case, output)
                return
            else:
                case.fail(output)
            self.at += 1

    def break_gpu(self, case, output):
        """Who came first in its process is the culprit; another may only have found what the one before it did."""
        if self.at == self.first:
            case.fail(output)
            self.at += 1
            return
        case.output = output  # tried again, in a process of its own
        self.cases[self.at - 1].suspect = case

    def close(self, status):
        if self.ended == "the GPU was unusable":
            return self.at
        if self.ended == "no time was left":
            return len(self.cases)
        left = self.at < len(self.cases)
        if not left and status == 0:
            return self.at
        why = self.ended or (f"was killed by signal {-status}" if status < 0 else f"ended with status {status}")
        output = "".join(self.lines)[-MAX_SHOWN:]
        if left:
            self.cases[self.at].fail(f"{output}\n{why}")
            return self.at + 1
        if not any(case.result == "failed" for case in self.cases[self.first:]):
            self.cases[-1].fail(f"{output}\n{why} after its last test case")
        return self.at

    def watch(self, process, done):
        while not done.wait(0.1):
            now = time.monotonic()
            if now > self.end_of_all:
                self.ended = "no time was left"
            elif now - self.case_began > self.options.case_timeout:
                self.ended = f"ran out of time after {self.options.case_timeout:g} s"
            if self.ended:
                kill(process)
                return


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_together(options, cases, number, end):
    """Neighbours, of which the first has this number: one process, and others behind what breaks it."""
    at = 0
    while at < len(cases) and time.monotonic() < end:
        at = Process(options, cases, at, number, end).run()
    for case, found_by in zip(cases, cases[1:]):
        if getattr(case, "suspect", None) is found_by and found_by.result == "passed":
            case.fail(f"broke the GPU, which \"{found_by.name}\" found:\n{found_by.output}")
            found_by.output = ""


def result_of(cases):
    counts = collections.Counter(case.result for case in cases)
    return Result(Counts(counts["passed"], counts["failed"], 0), [case.name for case in cases if case.result == "failed"],
                  sum(case.seconds for case in cases))


def run_all(options, cases, report):
    """Runs them all, or as far as time allows; writes the report after each group."""
    folders = dict.fromkeys(case.folder for case in cases)
    together = options.together
    end = time.monotonic() + options.seconds
    lock = threading.Lock()

    def run_group(first):
        group = cases[first:first + together]
        run_together(options, group, first + 1, end)
        with lock:
            for case in group:
                if case.result == "failed":
                    print(f"failed: {case.name} ({case.folder})\n{case.output.strip()[-MAX_SHOWN:]}", flush=True)
            for folder in dict.fromkeys(case.folder for case in group):
                report.add(options.device, folder, result_of([case for case in cases if case.folder == folder]))
            report.devices[options.device]["not_run"] = sum(not case.result for case in cases)
            report.write()

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as jobs:
        list(jobs.map(run_group, range(0, len(cases), together)))
    for folder in folders:
        print(f"{folder}: {result_of([case for case in cases if case.folder == folder]).counts}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=positive, default=4, help="how many processes run at a time")
    parser.add_argument("--together", type=positive, default=25, help="how many test cases a process gets")
    parser.add_argument("--seconds", type=float, default=3600, help="for all; what has not run then does not")
    parser.add_argument("--case-timeout", type=float, default=60, help="seconds for a test case")
    parser.add_argument("--report", type=pathlib.Path, help="a JSON file for the counts and the names of what failed")
    parser.add_argument("--outputs", type=pathlib.Path, help="a folder for what each process writes")
    parser.add_argument("--wrapper", default=[], type=str.split, help="a command in front of the program")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:at])
    options.filters = sys.argv[at + 1:]
    return options


def end_at_once(*_):
    """For whoever ends this process: those that it started have groups of their own."""
    for process in list(RUNNING):
        kill(process)
    os._exit(124)


def main():
    signal.signal(signal.SIGTERM, end_at_once)
    options = parse_arguments()
    options.program = options.program.resolve()
    if options.outputs:
        options.outputs.mkdir(parents=True, exist_ok=True)
    cases = listed(options)
    skipped = len(listed(options, "--no-skip")) - len(cases)
    run_all(options, cases, Report(options.report))
    counts = result_of(cases).counts + Counts(skipped=skipped)
    missed = sum(not case.result for case in cases)
    print(f"{counts}" + (f", {missed} not run" if missed else ""), flush=True)
    return 1 if counts.failed or not cases else 124 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
