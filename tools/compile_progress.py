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
# What one step takes one core on the average: 533 s for the library's 300 sources (docs/performance.md, "Building the
# library"). It counts as much as so many steps that were seen.
SECONDS_PER_STEP = 1.8
WEIGHT = 20
STATUS = {"NINJA_STATUS": "[%f/%t] "}


def count_steps(command):
    """How many steps ninja would take, 0 if none or if it cannot tell. Writes the build's files anew if they are old."""
    subprocess.run([*command[:3], "build.ninja"], capture_output=True)  # else ninja plans nothing but that
    planned = subprocess.run([*command, "-n"], capture_output=True, text=True, env=os.environ | STATUS).stdout
    steps = STEP.findall(planned)
    return int(steps[-1][1]) if steps else 0


class Estimate:
    """Seconds that are left, from what a step takes usually and what steps have taken until now."""

    def __init__(self, cores):
        self.cores = cores

    def left(self, done, total, elapsed):
        each = (WEIGHT * SECONDS_PER_STEP / self.cores + elapsed) / (WEIGHT + done)
        return (total - done) * each


def subject(description):
    """What a step made, without the folders of the build: "Compiling C++ object a/b.a.p/c.cpp.o" is "c.cpp"."""
    words = description.split()
    return pathlib.PurePath(words[-1]).name.removesuffix(".o") if words else ""


def run(command, log, folder, total):
    """Ninja's status."""
    cores = len(os.sched_getaffinity(0))
    estimate, line = Estimate(cores), ProgressLine()
    started = time.monotonic()
    done, made = 0, ""
    if total:
        print(f"compiling {folder}: {total} steps, about {about_text(estimate.left(0, total, 0))} on {cores} cores, "
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
            if total:
                elapsed = time.monotonic() - started
                line.show(f"[{done}/{total}] {time_text(elapsed, estimate.left(done, total, elapsed), done, 'steps')}; "
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
            return run(command, log, folder, count_steps(command))
    except KeyboardInterrupt:
        print("\ncompiling was interrupted; what is done is kept", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
