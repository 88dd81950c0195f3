# SPDX-License-Identifier: Apache-2.0
"""A run: a folder with files of metrics (*.jsonl), trace.json and run.json, or one file of metrics alone.

What is missing is no error as long as something is there; what cannot be read is told on the page.
"""

import contextlib
import datetime
import json
import os
import pathlib
import stat

import metrics_file
import series_data
import trace_file

LONGEST_JSON = 1 << 28  # bytes of trace.json and run.json
DEEPEST_JSON = 50  # lists and objects of run.json in each other


class RunError(Exception):
    pass


class JsonFile:
    """A file that is read as a whole when it has changed."""

    def __init__(self, path, parse):
        self.path, self.parse = path, parse
        self.seen, self.content, self.trouble = None, None, ""

    def read(self):
        """Whether it had changed."""
        try:
            status = self.path.stat()
            seen = (status.st_ino, status.st_size, status.st_mtime_ns)
            if seen == self.seen:
                return False
            if status.st_size > LONGEST_JSON:
                raise ValueError(f"it is longer than {LONGEST_JSON} bytes")
            if status.st_size == 0:  # it is written at the end
                raise FileNotFoundError
            content = self.parse(self.path.read_text(encoding="utf-8", errors="replace"))
            self.seen, self.content, self.trouble = seen, content, ""
        except FileNotFoundError:
            changed = self.seen is not None
            self.seen, self.content, self.trouble = None, None, ""
            return changed
        except (OSError, ValueError, RecursionError, trace_file.TraceError) as error:
            trouble = f"{self.path.name} cannot be read: {getattr(error, 'strerror', None) or error}"
            changed, self.trouble = trouble != self.trouble, trouble
            return changed
        return True


def parse_record(text):
    content = json.loads(text)
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    if is_deeper(content, DEEPEST_JSON):
        raise ValueError("it is nested too deeply")
    return content


def is_deeper(value, most):
    """Whether lists and objects lie in each other more than that often."""
    level = [value]
    for _ in range(most):
        level = [each for outer in level if isinstance(outer, (dict, list)) for each in (outer.values() if isinstance(outer, dict) else outer)]
    return any(isinstance(each, (dict, list)) for each in level)


class Run:
    """One run, read as often as asked. `name` is what a page calls it."""

    def __init__(self, path, name):
        self.path, self.name = path, name
        self.folder = path if path.is_dir() else None
        self.files = {}
        self.unreadable = {}  # why a file of metrics could not be read last
        beside = path if self.folder else path.parent
        self.trace = JsonFile(beside / "trace.json", trace_file.read_trace)
        self.record = JsonFile(beside / "run.json", parse_record)

    def read(self, told=lambda count: None):
        """Reads what is new; whether anything was. Throws RunError where a file cannot be read and nothing else has been.
        `told` hears of bytes of metrics as they are read."""
        changed, unreadable = False, {}
        for path in self.metrics_paths():
            if path not in self.files:
                self.files[path] = metrics_file.MetricsFile(path)
                changed = True
        for path, file in list(self.files.items()):
            try:
                changed |= file.read(told)
            except FileNotFoundError:
                del self.files[path]
                changed = True
            except OSError as error:
                unreadable[path] = error.strerror or str(error)
        for file in (self.trace, self.record):
            changed |= file.read()
        if unreadable and not self.has_content():
            raise RunError("cannot read {}: {}".format(*next(iter(unreadable.items()))))
        changed |= unreadable != self.unreadable
        self.unreadable = unreadable
        return changed

    def metrics_paths(self):
        if not self.folder:
            return [self.path] if self.path not in (self.trace.path, self.record.path) else []
        try:
            return sorted(self.folder / name for name in os.listdir(self.folder) if name.endswith(".jsonl") and os.path.isfile(self.folder / name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunError(f"cannot read {self.folder}: {error.strerror}") from None

    def metrics_bytes(self):
        """How long its files of metrics are."""
        with contextlib.suppress(OSError):  # read() says so
            return sum(path.stat().st_size for path in self.metrics_paths())
        return 0

    def reads(self, path):
        """Whether that is one of its files."""
        try:
            return any(os.path.samefile(path, own) for own in [*self.files, self.trace.path, self.record.path] if own.exists())
        except OSError:
            return False

    def has_content(self):
        return bool(self.trace.content or self.record.content) or any(not file.is_empty() for file in self.files.values())

    def require_content(self):
        """Throws RunError where nothing of the run could be read."""
        if self.has_content():
            return
        if not self.files:
            if not self.folder:
                raise RunError(self.trace.trouble or self.record.trouble or f"{self.path} has nothing")
            runs = sorted(path.parent for path in self.folder.glob("*/*.jsonl"))
            raise RunError(f"{self.path} has no *.jsonl, no trace.json and no run.json" + (f"; {runs[0]} has" if runs else ""))
        for path, file in self.files.items():
            if file.troubles:
                number, reason = file.troubles[0]
                raise RunError(f"{path}: no line has values; line {number} is {reason}")
            if file.unfinished:
                raise RunError(f"{path}: no line is whole yet")
        raise RunError(f"{next(iter(self.files))} has no values" + (f" ({self.trace.trouble})" if self.trace.trouble else ""))

    def own_trace(self):
        """The trace, and why it is left out: a run writes it at its end, so one from before its beginning is another's."""
        trace, record = self.trace.content, self.record.content
        if trace is None or record is None:
            return trace, ""
        try:
            started = datetime.datetime.fromisoformat(str(record.get("started")).replace("Z", "+00:00")).timestamp()
        except ValueError:
            return trace, ""
        if self.trace.seen[2] / 1e9 >= started:
            return trace, ""
        return None, f"{self.trace.path.name} was written before this run began, and is left out"

    def value_count(self):
        return sum(len(series.y) for file in self.files.values() for series in file.series.values())

    def describe(self, arrays, all_values):
        """What a page holds of it."""
        series, figures, files = [], [], []
        trace, left_out = self.own_trace()
        for path, file in self.files.items():
            files.append(describe_file(path, file))
            for each in file.series.values():
                if len(each.y) and is_figure(each):
                    figures.append([each.name, each.y[-1] if each.y[-1] - each.y[-1] == 0 else None])
                elif len(each.y):
                    series.append(series_data.describe(each, arrays, all_values) | {"file": path.name})
            figures += [[name, text] for name, text in file.texts.items()]
        return {"name": self.name, "path": str(self.path), "files": files, "figures": figures, "series": series,
                "record": self.record.content, "trace": trace, "parameters": self.parameters(trace),
                "troubles": [*(f"{path.name} cannot be read: {reason}" for path, reason in self.unreadable.items()),
                             *filter(None, (self.trace.trouble, self.record.trouble, left_out))]}

    def parameters(self, trace):
        """A row for each parameter that run.json or the trace names, in the first one's order."""
        recorded = self.record.content.get("parameters") if self.record.content else None
        rows = {}
        for each in recorded if isinstance(recorded, list) else []:
            if isinstance(each, dict) and isinstance(each.get("name"), str):
                rows[each["name"]] = dict(each)
        for name, times in (trace_file.parameters_of(trace) if trace else {}).items():
            rows.setdefault(name, {"name": name}).update(times)
        return list(rows.values())


def is_figure(series):
    """A single value beside no iteration: what a run says at its end."""
    return series.axis == metrics_file.LINE and len(series.y) == 1


def describe_file(path, file):
    return {"name": path.name, "lines": file.lines, "broken": file.broken, "troubles": file.troubles,
            "unfinished": file.unfinished, "left_out": [[name, count] for name, count in file.left_out.items()],
            "names_left_out": len(file.names_left_out)}


def open_runs(paths):
    """A run for each path, with names that tell them apart; throws RunError for one that is not there."""
    for path in paths:
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            raise RunError(f"there is no {path}") from None
        except OSError as error:
            raise RunError(f"cannot read {path}: {error.strerror}") from None
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise RunError(f"{path} is neither a folder nor a file")
    return [Run(path, name) for path, name in zip(paths, short_names(paths))]


def short_names(paths):
    """The ends of the paths, as long as they need be to differ; numbers behind those that are the same."""
    parts = [pathlib.PurePath(os.path.abspath(path)).parts for path in paths]
    names = []
    for own in parts:
        length = 1
        while length < len(own) and sum(other[-length:] == own[-length:] for other in parts) > 1:
            length += 1
        names.append("/".join(own[-length:]).replace("//", "/"))
    return [f"{name} ({names[:place].count(name) + 1})" if names.count(name) > 1 and names[:place].count(name) else name
            for place, name in enumerate(names)]
