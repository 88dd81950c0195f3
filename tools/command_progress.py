#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command whose output goes to a log, and says on standard error how far it is, and how long it will about take.

usage: command_progress.py [HOW] LOG LABEL COMMAND...

HOW tells what is known of it:
  --apt               it is apt-get whose APT::Status-Fd is its output: those lines say it, and stay out of the log
  --fills MB FOLDERS  it fills these folders (with ":" between them) with about so many MB
  --seconds S         it takes about so long, or as long as last time, which LOG.seconds keeps
  --at-most S         it is ended after so many seconds

The status is the command's.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from progress_line import ProgressLine, left_of, lines_of, time_text

APT_STATUS = re.compile(r"(dl|pm)status:[^:]*:([\d.]+):(.*)")


class Apt:
    """Downloads are the first half of what apt-get does, installing is the second; of an update they are all."""

    def __init__(self, command):
        self.update = "update" in command
        self.share, self.text = 0.0, ""

    def takes(self, line):
        """Whether the line is one of these, not one for the log."""
        if status := APT_STATUS.fullmatch(line):
            part = float(status[2]) / 100
            self.share = part if self.update else (0.5 * part if status[1] == "dl" else 0.5 + 0.5 * part)
            self.text = re.sub(r" \(.* remaining\)", "", status[3])
        return bool(status)

    def say(self, elapsed):
        return f"{100 * self.share:.0f} %, {time_text(elapsed, left_of(self.share, 1, elapsed))}; {self.text or 'begins'}"


class Log:
    """What the command said last, for all that do not know better."""

    def __init__(self):
        self.text = ""

    def takes(self, line):
        self.text = line.strip() or self.text
        return False

    def say(self, elapsed):
        return f"{time_text(elapsed, self.left(elapsed))}; {self.text or 'begins'}"

    def left(self, elapsed):
        return None


class Folders(Log):
    def __init__(self, megabytes, folders):
        super().__init__()
        self.all, self.folders = float(megabytes), folders.split(":")

    def megabytes(self):
        found = 0
        for folder in self.folders:
            for at, _, names in os.walk(folder):
                for name in names:
                    with contextlib.suppress(OSError):  # it went away
                        found += os.lstat(os.path.join(at, name)).st_size
        return found / 1e6

    def say(self, elapsed):
        done = min(self.megabytes(), self.all)
        return (f"{done:.0f} of about {self.all:.0f} MB, {time_text(elapsed, left_of(done, self.all, elapsed), done, 'MB')}; "
                f"{self.text or 'begins'}")


class Seconds(Log):
    def __init__(self, usual, kept):
        super().__init__()
        self.kept = kept
        try:
            self.usual = float(kept.read_text())
        except (OSError, ValueError):
            self.usual = float(usual)

    def left(self, elapsed):
        return max(0.0, self.usual - elapsed)

    def keep(self, elapsed):
        self.kept.write_text(f"{elapsed:.1f}\n")


class AtMost(Log):
    def __init__(self, most):
        super().__init__()
        self.most = float(most)

    def say(self, elapsed):
        return f"{time_text(elapsed)} of at most {self.most:.0f} s; {self.text or 'begins'}"


def run(command, how, log, label):
    """The command's status as a shell has it."""
    line, began = ProgressLine(quiet=1.0), time.monotonic()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for text in lines_of(process.stdout, 0.5):
            if text is not None and not how.takes(text):
                log.write(text + "\n")
                log.flush()
            if text is None or line.due():
                line.show(f"{label}: {how.say(time.monotonic() - began)}")
        status = process.wait()
    except BaseException:  # an interrupt, which a command in a group of its own does not get
        with contextlib.suppress(PermissionError):  # of sudo
            process.terminate()
        process.wait()
        raise
    finally:
        line.clear()
    if status == 0 and isinstance(how, Seconds):
        how.keep(time.monotonic() - began)
    return 128 - status if status < 0 else status


def parse(words):
    """What is known, and the words behind it. Throws ValueError, IndexError."""
    name, rest = words[0], words[1:]
    if name == "--apt":
        return Apt(rest), rest
    if name == "--fills":
        return Folders(rest[0], rest[1]), rest[2:]
    if name == "--seconds":
        return Seconds(rest[0], pathlib.Path(rest[1] + ".seconds")), rest[1:]
    if name == "--at-most":
        return AtMost(rest[0]), rest[1:]
    return Log(), words


def main(words):
    try:
        how, (log, label, *command) = parse(words)
        if not command or log.startswith("-"):
            raise ValueError
    except (ValueError, IndexError):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        with open(log, "w") as opened:
            return run(command, how, opened, label)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"{label}: {error}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
