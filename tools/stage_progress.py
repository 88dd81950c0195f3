#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Passes on what a stage of ./dev check prints, and while it is silent says how long it and all behind it will about take.

usage: COMMAND | stage_progress.py KEPT NAME OUTPUT

OUTPUT gets the same as standard output. KEPT has what stages took in the last whole run, a line of seconds and name for each
in their order; where it or the stage is missing nothing is said of the time that is left.
"""

import os
import select
import sys
import time

from progress_line import ProgressLine, about_text, time_text


def read_kept(path):
    """(seconds, name) of each stage."""
    try:
        with open(path) as file:
            rows = [line.rstrip("\n").partition(" ") for line in file]
        return [(float(seconds), name) for seconds, _, name in rows]
    except (OSError, ValueError):
        return []


class Stage:
    def __init__(self, kept, name):
        self.name, self.own, self.behind = name, None, None
        for place, (seconds, each) in enumerate(kept):
            if each == name:
                self.own, self.behind = seconds, sum(later for later, _ in kept[place + 1:])

    def say(self, elapsed):
        if self.own is None:
            return f"{self.name}: {time_text(elapsed)}"
        left = max(0.0, self.own - elapsed)
        return f"{self.name}: {time_text(elapsed, left)}, {about_text(left + self.behind)} for all"


def main(kept, name, output):
    stage, line, began = Stage(read_kept(kept), name), ProgressLine(), time.monotonic()
    whole = True  # what was passed on ends a line
    with open(output, "wb") as file:
        while True:
            if not select.select([0], [], [], 0.5)[0]:
                if whole:
                    line.show(stage.say(time.monotonic() - began))
                continue
            line.clear()
            line.put_off()
            chunk = os.read(0, 65536)
            if not chunk:
                return 0
            whole = chunk.endswith(b"\n")
            file.write(chunk)
            file.flush()
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        print(file=sys.stderr)
        sys.exit(130)
