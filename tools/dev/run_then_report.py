#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program that trains, with a report of what it wrote at its end: run_then_report.py FOLDER PROGRAM [ARGUMENT...].

The program gets the signals that end this one, and its status is this one's. There is a report if the folder has something
that is newer than the program's start.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

REPORT = pathlib.Path(__file__).resolve().parents[2] / "command/report/tutti_report.py"


def is_new(folder, began):
    return any(path.stat().st_mtime >= began for path in [*folder.glob("*.jsonl"), *folder.glob("run.json")])


def main(folder, words):
    began = time.time() - 1  # file systems count coarsely
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both; the program decides
    child = subprocess.Popen(words, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda received, _: child.send_signal(received))
    status = child.wait()
    if is_new(folder, began):
        report = subprocess.run([sys.executable, REPORT, folder], capture_output=True, text=True, env=os.environ | {"TUTTI_CALLED_FROM": "."})
        if report.returncode == 0:
            seen = os.path.relpath(folder, os.environ.get("TUTTI_CALLED_FROM", "."))
            print(f"report                  {seen}/report.html: ./dev report --open {seen}", file=sys.stderr, flush=True)
        else:
            print(report.stderr, end="", file=sys.stderr)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
