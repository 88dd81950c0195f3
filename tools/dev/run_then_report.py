#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program that trains, with a report of what it wrote at its end: run_then_report.py FOLDER PROGRAM [ARGUMENT...].

The program gets the signals that this one gets, ends with it, and its status is this one's. There is a report if the folder has something
that is newer than the program's start.
"""

import ctypes
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

REPORT = pathlib.Path(__file__).resolve().parents[2] / "command/report/tutti_report.py"
PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
PR_SET_PDEATHSIG = 1


def is_new(folder, began):
    return any(path.stat().st_mtime >= began for path in [*folder.glob("*.jsonl"), *folder.glob("run.json")])


def start(words):
    """The program as if it had been started in this one's place: what was ignored is, and it dies with this one."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both; the program decides

    def prepare():
        signal.signal(signal.SIGINT, signal.SIG_IGN if interrupt == signal.SIG_IGN else signal.SIG_DFL)
        if prctl:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)

    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until there is whom to pass them on to
    child = subprocess.Popen(words, preexec_fn=prepare)
    for number in PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda received, _: child.send_signal(received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    return child


def main(folder, words):
    began = time.time() - 1  # file systems count coarsely
    child = start(words)
    status = child.wait()
    if is_new(folder, began):
        report = subprocess.run([sys.executable, REPORT, folder], capture_output=True, text=True, env=os.environ | {"TUTTI_CALLED_FROM": "."})
        if report.returncode == 0:
            seen = os.path.relpath(os.path.realpath(folder), os.path.realpath(os.environ.get("TUTTI_CALLED_FROM", ".")))
            print(f"report                  {seen}/report.html: ./dev report --open {shlex.quote(seen)}", file=sys.stderr, flush=True)
        else:
            print(report.stderr, end="", file=sys.stderr)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
