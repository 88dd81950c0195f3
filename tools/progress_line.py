# SPDX-License-Identifier: Apache-2.0
"""One line that says how far something is: written over and over on a terminal, printed now and then elsewhere."""

import os
import shutil
import sys
import time


def duration_text(seconds):
    """Whole seconds: "48 s", "2 min 5 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def about_text(seconds):
    """What an estimate is worth: tens of seconds, or minutes."""
    return f"{max(1, round(seconds / 60))} min" if seconds >= 90 else f"{max(1, round(seconds / 10)) * 10} s"


class ProgressLine:
    """Has no colours. What else is printed to the same terminal comes after clear()."""

    def __init__(self, stream=sys.stderr, seconds_between=15.0):
        self.stream = stream
        self.rewrites = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.seconds_between = seconds_between
        self.shown = time.monotonic()
        self.width = 0

    def show(self, text):
        if self.rewrites:
            text = text[:max(20, shutil.get_terminal_size().columns - 1)]
            self.stream.write("\r" + text.ljust(self.width))
            self.width = len(text)
        elif time.monotonic() - self.shown >= self.seconds_between:
            self.stream.write(text + "\n")
            self.shown = time.monotonic()
        self.stream.flush()

    def clear(self):
        if self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()
            self.width = 0
