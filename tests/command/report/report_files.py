# SPDX-License-Identifier: Apache-2.0
"""What tests of `tutti report` share: folders with files of runs, a small trace, and what a page holds."""

import array
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "command/report"))

import metrics_file  # noqa: E402

os.environ.pop("TUTTI_CALLED_FROM", None)  # where the tests were started from: the names that they give lie elsewhere

PROGRAM = ROOT / "command/report/tutti_report.py"


def unpacked(packed):
    planes = zlib.decompress(base64.b64decode(packed["data"]))
    count = packed["count"]
    values = array.array("d", b"".join(planes[place::count] for place in range(count))).tolist()
    if packed["differences"]:
        for place in range(1, count):
            values[place] += values[place - 1]
    return values


def data_of(page):
    return json.loads(page.partition('id="data">')[2].partition("</script>")[0])


class InFolder(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        self.path = self.folder / "metrics.jsonl"

    def read(self, text):
        self.path.write_bytes(text if isinstance(text, bytes) else text.encode())
        file = metrics_file.MetricsFile(self.path)
        file.read()
        return file

    def values(self, file, name, axis="iteration"):
        series = file.series[axis, name]
        return list(zip(series.x, series.y))

    def report(self, *arguments):
        return subprocess.run([sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder, timeout=60)


def trace_text():
    """Two steps of two devices; in each `w` and `b` are a bucket, ready at 5 and 8. Forward takes 4."""
    events = [{"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": {"name": name}} for tid, name in enumerate(("cpu:0", "cpu:1", "reductions"))]
    for generation, at in ((1, 0.0), (2, 100.0)):
        for tid in (0, 1):
            events += [{"name": "forward", "ph": "X", "pid": 1, "tid": tid, "ts": at + tid - 4.0, "dur": 4.0, "args": {"generation": generation}},
                       {"name": "backward", "ph": "X", "pid": 1, "tid": tid, "ts": at + tid, "dur": 10.0, "args": {"generation": generation}},
                       {"name": "join", "ph": "X", "pid": 1, "tid": tid, "ts": at + tid + 10.0, "dur": 5.0 - tid, "args": {"generation": generation}},
                       {"name": "final: w", "ph": "i", "pid": 1, "tid": tid, "ts": at + 5.0 + tid}, {"name": "final: b", "ph": "i", "pid": 1, "tid": tid, "ts": at + 7.0 + tid}]
        events += [{"name": name, "ph": "X", "pid": 1, "tid": 2, "ts": at + 8.5, "dur": 4.0, "args": {"generation": generation}} for name in ("w", "b")]
    return text_of(events)


def older_trace_text():
    """The same as it was written when nobody recorded when a step was opened."""
    return text_of(event for event in json.loads(trace_text())["traceEvents"] if event["name"] != "forward")


def trace_of_two_processes():
    """A step of two processes with a device each. Rank 0's backward ends at 10, rank 1's at 30; of 20 of reductions rank 0 has 3
    before 10 and 15 before 30, and rank 1, of 10, has 8 before 30."""
    events = []
    for rank, (end, buckets) in enumerate(((10.0, ((7.0, 5.0, ("w", "b")), (20.0, 15.0, ("v",)))), (30.0, ((22.0, 10.0, ("w", "b")),)))):
        track = {"pid": rank + 1, "tid": 0}
        step = track | {"ph": "X", "args": {"generation": 1}}
        events += [track | {"name": "process_name", "ph": "M", "args": {"name": f"rank {rank}"}}, track | {"name": "thread_name", "ph": "M", "args": {"name": f"rank {rank} cpu:0"}},
                   track | {"tid": 1, "name": "thread_name", "ph": "M", "args": {"name": "reductions"}},
                   step | {"name": "backward", "ts": 0.0, "dur": end}, step | {"name": "join", "ts": end, "dur": 40.0 - end}]
        events += [step | {"tid": 1, "name": name, "ts": launched, "dur": taken} for launched, taken, names in buckets for name in names]
    return text_of(events)


def text_of(events):
    return '{"traceEvents":[\n' + ",\n".join(json.dumps(event) for event in events) + "\n]}"
