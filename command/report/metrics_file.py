# SPDX-License-Identifier: Apache-2.0
"""Reads files of metrics, one JSON object a line, as far as they are written.

A file may be read again while a program writes it: only what came after is parsed, and all of it where the file was
replaced or cut, as it is when a run is resumed. A line that cannot be read is counted and named, and ends nothing.
"""

import array
import json
import math
import os

AXES = ("iteration", "step", "global_step", "epoch")  # names of the horizontal axis; a row's first of these counts
LINE = "line"  # the axis of rows that have none of these
BLOCK = 1 << 23
LONGEST_LINE = 1 << 24
MOST_NAMES = 1000  # series of one file
NAMED_TROUBLES = 20
CHECKED_TAIL = 256  # bytes before the end of what was read, by which a file that was written anew is known
SCAN = json.JSONDecoder().scan_once  # a value and where it ends, without the looks at what is around it
NAN, INFINITY = math.nan, math.inf


class Series:
    """Values of one name over one axis, in the file's order; null is NaN, and counted."""

    __slots__ = ("axis", "name", "nulls", "x", "y")

    def __init__(self, name, axis):
        self.name, self.axis = name, axis
        self.nulls = array.array("Q")  # their places
        self.x, self.y = array.array("d"), array.array("d")

    def add(self, x, value):
        """Takes a value; False if it is none that can be drawn."""
        kind = type(value)
        if kind is not float:
            if kind is int or kind is bool:
                value = to_float(value)
            elif value is None:
                self.nulls.append(len(self.y))
                value = NAN
            else:
                return False
        self.x.append(x)
        self.y.append(value)
        return True


def axis_values(values):
    """The same as numbers of an axis; None if one of them is no finite number."""
    if not set(map(type, values)) <= {int, float}:
        return None
    try:
        numbers = array.array("d", values)
    except OverflowError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def to_float(value):
    try:
        return float(value)
    except OverflowError:
        return INFINITY if value > 0 else -INFINITY


class MetricsFile:
    """What a file has had so far. `read` takes what is new."""

    def __init__(self, path):
        self.path = path
        self.identity = None
        self.clear()

    def clear(self):
        self.offset, self.lines, self.tail, self.broken_text = 0, 0, b"", ""
        self.dropping = False  # the rest of a line that is too long
        self.open_line = False  # the last line was taken before its end was there
        self.series = {}  # by axis and name
        self.plans = {}  # by the names of a row: its axis, and the series of the others
        self.texts = {}  # the last one of each name
        self.left_out = {}  # how often a name had a list or an object
        self.names_left_out = set()
        self.troubles, self.broken = [], 0
        self.unfinished = False  # the last line has no end, and is no whole object

    def read(self, told=lambda count: None):
        """Reads on; whether anything had changed. Throws OSError. `told` hears of bytes as they are read."""
        with open(self.path, "rb") as file:
            status = os.fstat(file.fileno())
            identity = (status.st_dev, status.st_ino)
            before = (self.identity, self.offset, self.broken_text, self.lines)
            if identity != self.identity or not self.goes_on(file, status.st_size):
                self.clear()
            self.identity = identity
            file.seek(self.offset)
            self.read_blocks(file, told)
            return before != (self.identity, self.offset, self.broken_text, self.lines)

    def goes_on(self, file, size):
        if size < self.offset:
            return False
        file.seek(self.offset - len(self.tail))
        return file.read(len(self.tail)) == self.tail

    def read_blocks(self, file, told):
        rest = b""
        while block := file.read(BLOCK):
            told(len(block))
            rest += block
            end = rest.rfind(b"\n") + 1
            if end:
                self.take(rest[:end])
                rest = rest[end:]
            if len(rest) > LONGEST_LINE:
                self.offset += len(rest)
                self.tail = rest[-CHECKED_TAIL:]
                rest = b""
                if not self.dropping:
                    self.trouble(self.lines + 1, f"longer than {LONGEST_LINE} bytes")
                self.dropping = True
        self.take_unfinished(rest)

    def take(self, block):
        lines = self.text_of(block).split("\n")
        self.offset += len(block)
        self.tail = (self.tail + block)[-CHECKED_TAIL:]
        lines.pop()  # behind the last end
        if self.dropping:
            self.dropping = False
            self.lines += 1
            lines = lines[1:]
        if self.open_line:
            self.open_line = False
            lines = lines[1:]
        scan, plans = SCAN, self.plans
        number, current, rows, numbers = self.lines, None, [], []
        for line in lines:
            number += 1
            try:
                row, end = scan(line, 0) if line[:1] == "{" else (json.loads(line), len(line))
                if end != len(line):
                    row = json.loads(line)
                plan = type(row) is dict and plans.get(tuple(row)) or self.plan(row)
            except (ValueError, TypeError, RecursionError, StopIteration) as error:
                if line.strip():
                    self.trouble(number, reason_of(error, line))
                continue
            if plan is not current:
                self.add_rows(current, rows, numbers)
                current, rows, numbers = plan, [], []
            rows.append(row)
            numbers.append(number)
        self.add_rows(current, rows, numbers)
        self.troubles.sort()
        self.lines = number

    def text_of(self, content):
        """What bytes behind `offset` say, without the mark that some programs begin files of UTF-8 with."""
        text = content.decode("utf-8", "replace")
        return text if self.offset else text.removeprefix("\ufeff")

    def take_unfinished(self, rest):
        """The bytes behind the last end of a line: another read begins with them again, unless they are whole."""
        self.broken_text = rest[:CHECKED_TAIL].decode("utf-8", "replace") if rest.strip() else ""
        self.unfinished = False
        if not self.broken_text or self.dropping:
            return
        try:
            row = json.loads(self.text_of(rest))
        except (ValueError, RecursionError):
            row = None
        if type(row) is dict:
            self.take(rest + b"\n")
            self.offset -= 1
            self.tail = self.tail[:-1]
            self.open_line = True
        else:
            self.unfinished = True

    def trouble(self, number, reason):
        self.broken += 1
        if len(self.troubles) < NAMED_TROUBLES:
            self.troubles.append((number, reason))

    def plan(self, row):
        """The axis and the series of rows with such names. Throws TypeError for what is no object."""
        if type(row) is not dict:
            raise TypeError("no JSON object")
        names = tuple(row)
        axis = next((name for name in AXES if name in names), LINE)
        plan = (axis, [(name, self.series_of(name, axis)) for name in names if name != axis])
        if len(self.plans) < MOST_NAMES:
            self.plans[names] = plan
        return plan

    def series_of(self, name, axis):
        series = self.series.get((axis, name))
        if series is None:
            series = Series(name, axis)
            if len(self.series) >= MOST_NAMES:
                self.names_left_out.add(name)
                return series
            self.series[axis, name] = series
        return series

    def add_rows(self, plan, rows, numbers):
        """Adds rows with the same names: whole columns where they are numbers, which nearly all are."""
        if not rows:
            return
        axis, columns = plan
        by_name = dict(zip(rows[0], zip(*(row.values() for row in rows))))
        x = axis_values(numbers if axis == LINE else by_name[axis])
        if x is None:
            for row, number in zip(rows, numbers):
                self.add_row(row, plan, number)
            return
        for name, series in columns:
            column = by_name[name]
            if set(map(type, column)) == {float}:
                series.x.extend(x)
                series.y.extend(column)
            else:
                for at, value in zip(x, column):
                    if not series.add(at, value):
                        self.leave_out(name, value)

    def add_row(self, row, plan, number):
        axis, columns = plan
        x = axis_values([row[axis]])
        if x is None:
            self.trouble(number, f"'{axis}' is no finite number")
            return
        for name, series in columns:
            if not series.add(x[0], row[name]):
                self.leave_out(name, row[name])

    def leave_out(self, name, value):
        if isinstance(value, str):
            self.texts[name] = value[:1000]
        elif len(self.left_out) < MOST_NAMES or name in self.left_out:
            self.left_out[name] = self.left_out.get(name, 0) + 1

    def is_empty(self):
        return not self.texts and not any(series.y for series in self.series.values())


def reason_of(error, line):
    """What is wrong with a line, for which the scanner gave that error."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    try:
        json.loads(line)
    except json.JSONDecodeError as told:
        return f"no JSON: {told.msg} at column {told.colno}"
    except (ValueError, RecursionError) as told:
        return f"no JSON: {told}"
    return "no JSON object"
