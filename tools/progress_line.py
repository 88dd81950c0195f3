# SPDX-License-Identifier: Apache-2.0
"""One line that says how far something is: written over and over on a terminal, printed now and then elsewhere."""

import os
import select
import sys
import time


def duration_text(seconds):
    """Whole seconds: "48 s", "2 min 5 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def about_text(seconds):
    """What an estimate is worth: tens of seconds, or minutes."""
    return f"{max(1, round(seconds / 60))} min" if seconds >= 90 else f"{max(1, round(seconds / 10)) * 10} s"


def rate_text(done, seconds, unit):
    """How many a second, or a minute: "3.2 steps/s", "14 steps/min"."""
    rate = done / seconds
    return f"{rate:.1f} {unit}/s" if rate >= 1 else f"{60 * rate:.0f} {unit}/min"


def time_text(elapsed, left=None, done=0, unit=""):
    """What of it is known: "1 min 5 s, 3.2 steps/s, about 4 min left"."""
    parts = [duration_text(elapsed)]
    if done and elapsed >= 1:
        parts.append(rate_text(done, elapsed, unit))
    if left is not None:
        parts.append(f"about {about_text(left)} left")
    return ", ".join(parts)


def left_of(done, total, elapsed):
    """Seconds that are left if the rest goes on as what is done; None if nothing is."""
    return elapsed / done * (total - done) if done else None


def draws_over(stream):
    """Whether a line can be written over: not in a pipe or a file, on a dumb terminal, or where CI keeps all that is written."""
    integration = os.environ.get("CI", "") not in ("", "false", "0")
    return stream.isatty() and not integration and os.environ.get("TERM", "") not in ("", "dumb")


def columns_of(stream):
    """How wide the stream's own terminal is: standard output may go elsewhere."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def lines_of(pipe, seconds):
    """Lines as they come, and None after so many seconds without one."""
    pending = b""
    while True:
        if not select.select([pipe], [], [], seconds)[0]:
            yield None
            continue
        chunk = os.read(pipe.fileno(), 65536)
        if not chunk:
            break
        *whole, pending = (pending + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
    if pending:
        yield pending.decode(errors="replace")


class ProgressLine:
    """Has no colours. What else is printed to the same terminal comes after clear()."""

    def __init__(self, stream=sys.stderr, seconds_between=15.0, quiet=0.0):
        """`quiet`: seconds at first in which a terminal shows nothing, for what may be done by then."""
        self.stream = stream
        self.rewrites = draws_over(stream)
        self.seconds_between = seconds_between
        self.began = self.shown = time.monotonic()
        self.quiet = quiet
        self.width = 0

    def show(self, text):
        now = time.monotonic()
        if self.rewrites:
            if now - self.began < self.quiet:
                return
            text = text[:max(1, columns_of(self.stream) - 1)]  # a character in the last column makes some terminals wrap
            self.stream.write("\r" + text.ljust(self.width))
            self.width = len(text)
            self.shown = now
        elif now - self.shown >= self.seconds_between:
            self.stream.write(text + "\n")
            self.shown = now
        self.stream.flush()

    def due(self):
        """Whether it is long enough ago that show() is worth what it costs to find out what to say."""
        return time.monotonic() - self.shown >= (0.5 if self.rewrites else self.seconds_between)

    def clear(self):
        if self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()
            self.width = 0

    def put_off(self):
        """Says that something else was just printed: the next plain line comes no sooner than after it."""
        self.shown = time.monotonic()
