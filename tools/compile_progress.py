#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ninja, says how far it is, and how long it will about take.

usage: compile_progress.py FOLDER [TARGET...]

Ninja's output goes to FOLDER/compile.log. Says nothing when there is nothing to do. The status is ninja's.
"""

import os
import pathlib
import re
import subprocess
import sys
import time

from progress_line import ProgressLine, about_text, duration_text, lines_of, time_text

STEP = re.compile(r"\[(\d+)/(\d+)\] (.*)")
# Seconds of one core that a step takes usually, by its description: means of CI's release and sanitized folders, two busy
# cores, 2026-11-29.
KINDS = (
    (re.compile(r"^Compiling .*(-unity\d+\.|_test_\d+\.)"), 13.0),  # of several sources that are merged
    (re.compile(r"^Precompiling "), 15.0),
    (re.compile(r"\.cu\.o\b"), 10.0),
    (re.compile(r"^Compiling "), 5.0),
)
OTHERWISE = 0.4  # links, writes a source
# What is usual counts as much as so many seconds of a core that were seen.
WEIGHT = 60.0
STATUS = {"NINJA_STATUS": "[%f/%t] "}


def planned(command):
    """Descriptions of all steps that ninja would take; none if it cannot tell. Writes the build's files anew if they are old."""
    subprocess.run([*command[:3], "build.ninja"], capture_output=True)  # else ninja plans nothing but that
    plan = subprocess.run([*command, "-n"], capture_output=True, text=True, env=os.environ | STATUS).stdout
    return [step[3] for step in map(STEP.match, plan.splitlines()) if step]


def last_times(folder):
    """Seconds that each output took when it was last made there, which ninja keeps."""
    try:
        lines = (folder / ".ninja_log").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    entries = [line.split("\t") for line in lines if line.count("\t") == 4]
    return {entry[3]: (int(entry[1]) - int(entry[0])) / 1000 for entry in entries}


def seconds_of(description, last):
    """Seconds of one core that a step will about take: as last time, unless that was so short that ccache had it."""
    usual = next((seconds for kind, seconds in KINDS if kind.search(description)), OTHERWISE)
    before = last.get(description.split()[-1].strip("'."), 0.0)
    return before if before > usual / 10 else usual


class Estimate:
    """Seconds that are left, from what is expected of each step that is planned and what steps have taken until now."""

    def __init__(self, cores, steps, last):
        self.cores, self.done = cores, 0.0
        self.ahead = {step: seconds_of(step, last) for step in steps}

    def made(self, step):
        self.done += self.ahead.pop(step, 0.0)

    def left(self, steps, elapsed):
        """Of so many steps: ninja leaves out those whose inputs turn out to be the same."""
        each = sum(self.ahead.values()) / max(1, len(self.ahead))
        return steps * each * (WEIGHT / self.cores + elapsed) / (WEIGHT + self.done)


def subject(description):
    """What a step made, without the folders of the build: "Compiling C++ object a/b.a.p/c.cpp.o" is "c.cpp"."""
    words = description.split()
    return pathlib.PurePath(words[-1]).name.removesuffix(".o") if words else ""


def run(command, log, folder, steps):
    """Ninja's status."""
    cores = len(os.sched_getaffinity(0))
    estimate, line = Estimate(cores, steps, last_times(folder)), ProgressLine()
    started = time.monotonic()
    done, total, made = 0, len(steps), ""
    if total:
        print(f"compiling {folder}: {total} steps, about {about_text(estimate.left(total, 0))} on {cores} cores, "
              "less with what ccache has",
              file=sys.stderr, flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=os.environ | STATUS) as process:
        for text in lines_of(process.stdout, 1.0):
            if text is not None:
                log.write(text + "\n")
                log.flush()
                if step := STEP.match(text):
                    done, total, made = int(step[1]), int(step[2]), subject(step[3])
                    estimate.made(step[3])
            if total:
                elapsed = time.monotonic() - started
                line.show(f"[{done}/{total}] {time_text(elapsed, estimate.left(total - done, elapsed), done, 'steps')}; "
                          f"made {made or 'nothing yet'}")
    status = process.returncode
    line.clear()
    if status == 0 and total:
        print(f"compiled {folder}: {done} steps in {duration_text(time.monotonic() - started)}", file=sys.stderr)
    return status


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    folder = pathlib.Path(arguments[0])
    command = ["ninja", "-C", str(folder), *arguments[1:]]
    try:
        with open(folder / "compile.log", "w") as log:
            return run(command, log, folder, planned(command))
    except KeyboardInterrupt:
        print("\ncompiling was interrupted; what is done is kept", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
