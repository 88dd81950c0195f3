#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tutti report` without a browser: what it reads of whole, broken, growing and hostile files, what a page holds of it, how
pages are written, and how they are served."""

import array
import base64
import http.client
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "command/report"))

import chart_groups  # noqa: E402
import metrics_file  # noqa: E402
import report_page  # noqa: E402
import run_files  # noqa: E402
import series_data  # noqa: E402
import trace_file  # noqa: E402

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


class Files(InFolder):
    def test_values_by_name_and_axis(self):
        file = self.read('{"iteration":1,"loss":2}\n{"iteration":2,"loss":1.5,"lr":true}\n{"epoch":1,"loss":9}\n{"test":0.5}\n')
        self.assertEqual(self.values(file, "loss"), [(1, 2), (2, 1.5)])
        self.assertEqual(self.values(file, "lr"), [(2, 1)])
        self.assertEqual(self.values(file, "loss", "epoch"), [(1, 9)])
        self.assertEqual(self.values(file, "test", "line"), [(4, 0.5)])

    def test_what_is_not_finite_is_kept_and_counted(self):
        file = self.read('{"step":1,"a":null}\n{"step":2,"a":NaN}\n{"step":3,"a":-Infinity}\n{"step":4,"a":1' + "0" * 400 + '}\n{"step":5,"a":3}\n')
        described = series_data.describe(file.series["step", "a"], series_data.Arrays(), 5)
        self.assertEqual([described[key] for key in ("count", "nulls", "nan", "inf", "minus_inf", "min", "max", "last")], [5, 1, 2, 1, 1, 3, 3, 3])

    def test_broken_lines_are_named_and_the_others_read(self):
        deep = "[" * 100000
        file = self.read(b'{"step":1,"a":1}\nno JSON\n[1]\n\n{"step":"x","a":1}\n\xff\xfe\n' + deep.encode() + b'\n{"step":2,"a":2}\n')
        self.assertEqual(self.values(file, "a", "step"), [(1, 1), (2, 2)])
        self.assertEqual(file.broken, 5)
        self.assertEqual([line for line, _ in file.troubles], [2, 3, 5, 6, 7])
        self.assertIn("'step' is no finite number", file.troubles[2][1])

    def test_texts_and_lists_that_look_like_names_are_no_rows(self):
        file = self.read('{"step":1,"a":1}\n["step","a"]\n{"a":1,"b":2}\n"ab"\n5\n')
        self.assertEqual([line for line, _ in file.troubles], [2, 4, 5])

    def test_a_half_written_line_is_left_out_and_then_read(self):
        file = self.read('{"step":1,"a":1}\n{"step":2,"a"')
        self.assertTrue(file.unfinished)
        self.assertEqual(file.broken, 0)
        with open(self.path, "a") as more:
            more.write(':2}\n{"step":3,"a":3}')  # the last one is whole, though no line's end follows yet
        self.assertTrue(file.read())
        self.assertFalse(file.unfinished)
        self.assertEqual(self.values(file, "a", "step"), [(1, 1), (2, 2), (3, 3)])
        with open(self.path, "a") as more:
            more.write('\n{"step":4,"a":4}\n')
        file.read()
        self.assertEqual(self.values(file, "a", "step"), [(1, 1), (2, 2), (3, 3), (4, 4)])
        self.assertEqual((file.lines, file.broken), (4, 0))
        self.assertFalse(file.read())

    def test_a_file_that_is_cut_or_written_anew_is_read_anew(self):
        file = self.read("".join(f'{{"step":{i},"a":{i}}}\n' for i in range(100)))
        self.path.write_text('{"step":7,"a":70}\n')
        self.assertTrue(file.read())
        self.assertEqual(self.values(file, "a", "step"), [(7, 70)])
        self.path.write_text('{"step":8,"a":80}\n' * 5)  # longer, and others
        file.read()
        self.assertEqual(len(self.values(file, "a", "step")), 5)

    def test_lists_texts_and_many_names(self):
        names = metrics_file.MOST_NAMES + 7
        file = self.read('{"step":1,"t":"word","l":[1]}\n{"step":2,"l":{}}\n' + "".join(f'{{"step":1,"n{i}":1}}\n' for i in range(names)))
        self.assertEqual((file.texts, file.left_out), ({"t": "word"}, {"l": 2}))
        self.assertEqual(len(file.names_left_out), names + 2 - metrics_file.MOST_NAMES)


class Values(unittest.TestCase):
    def test_arrays_come_back_bit_by_bit_and_once(self):
        arrays = series_data.Arrays()
        for values in ([1.0, 2.0, 3.0, 10.0, -5.0], [0.1, 1e-300, -1e300, math.inf], [], [2.0**53, 0.5]):
            place = arrays.place(array.array("d", values))
            self.assertEqual(unpacked(arrays.packed[place]), values)
            self.assertEqual(arrays.place(array.array("d", values)), place)

    def test_buckets_keep_extremes_and_what_is_not_finite(self):
        y = [float(i % 97) for i in range(1000)]
        y[333], y[500], y[700] = 1e6, -1e6, math.nan
        x, kept = series_data.bucketed(array.array("d", range(1000)), array.array("d", y), 50)
        pairs = dict(zip(x, kept))
        self.assertEqual((pairs[333], pairs[500], pairs[0], pairs[999]), (1e6, -1e6, y[0], y[999]))
        self.assertTrue(math.isnan(pairs[700]))
        self.assertLessEqual(len(kept), 5 * 20)
        self.assertEqual(list(x), sorted(x))

    def test_buckets_begin_where_a_page_is_full(self):
        most = series_data.MOST_VALUES
        self.assertEqual(series_data.bucket_size(most, most), 1)
        self.assertGreater(series_data.bucket_size(most, 2 * most), 1)
        self.assertEqual(series_data.bucket_size(100, 100 * most), 1)
        self.assertLessEqual(5 * 2 * most / series_data.bucket_size(2 * most, 2 * most), most)

    def test_what_a_resumed_run_wrote_anew_is_apart(self):
        series = metrics_file.Series("a", "step")
        for x, y in ((1, 1), (2, 2), (3, 3), (4, 4), (3, 30), (4, 40), (5, 50), (5, 51)):
            series.add(float(x), float(y))
        arrays = series_data.Arrays()
        described = series_data.describe(series, arrays, 8)
        self.assertEqual(unpacked(arrays.packed[described["y"]]), [1, 2, 30, 40, 50, 51])
        self.assertEqual(unpacked(arrays.packed[described["dropped"]["y"]]), [3, 4])
        self.assertEqual((described["returns"], described["return_count"]), ([3], 1))

    def test_charts_have_what_belongs_together(self):
        series = [{"name": name, "axis": "iteration"} for name in ("total_loss", "lr", "validation_loss", "memory/cpu:0/peak", "evaluation/accuracy",
                                                                   "throughput", "memory", "accuracy", "sync/skew", "loss")]
        charts = chart_groups.group([{"series": series}])
        self.assertEqual([(chart["section"], chart["title"], len(chart["members"])) for chart in charts],
                         [("Loss and metrics", "loss", 3), ("Loss and metrics", "accuracy", 2), ("Learning rate", "lr", 1), ("Throughput", "throughput", 1),
                          ("Memory", "memory", 2), ("Synchronisation", "sync/skew", 1)])
        self.assertEqual(sorted(member["kind"] for member in charts[0]["members"]), ["", "training", "validation"])


def trace_text():
    """Two steps of two devices; in each `w` and `b` are a bucket, ready at 5 and 8."""
    events = [{"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": {"name": name}} for tid, name in enumerate(("cpu:0", "cpu:1", "reductions"))]
    for generation, at in ((1, 0.0), (2, 100.0)):
        for tid in (0, 1):
            events += [{"name": "backward", "ph": "X", "pid": 1, "tid": tid, "ts": at + tid, "dur": 10.0, "args": {"generation": generation}},
                       {"name": "join", "ph": "X", "pid": 1, "tid": tid, "ts": at + tid + 10.0, "dur": 5.0 - tid, "args": {"generation": generation}},
                       {"name": "final: w", "ph": "i", "pid": 1, "tid": tid, "ts": at + 5.0 + tid}, {"name": "final: b", "ph": "i", "pid": 1, "tid": tid, "ts": at + 7.0 + tid}]
        events += [{"name": name, "ph": "X", "pid": 1, "tid": 2, "ts": at + 8.5, "dur": 4.0, "args": {"generation": generation}} for name in ("w", "b")]
    return '{"traceEvents":[\n' + ",\n".join(json.dumps(event) for event in events) + "\n]}"


class Traces(unittest.TestCase):
    def test_steps_buckets_and_readiness(self):
        trace = trace_file.read_trace(trace_text())
        self.assertEqual([device["name"] for device in trace["devices"]], ["cpu:0", "cpu:1"])
        first, second = trace["steps"]
        self.assertEqual(first["devices"], [[0, 0.0, 10.0, 15.0, None], [1, 1.0, 11.0, 15.0, None]])
        self.assertEqual([row[4] for row in second["devices"]], [15.0, 15.0])
        self.assertEqual([bucket[:3] for bucket in first["buckets"]], [[0, 8.5, 12.5]])
        self.assertEqual([trace["names"][name] for name in first["buckets"][0][3]], ["w", "b"])
        self.assertEqual(len(first["ready"]), 4)
        self.assertEqual(trace_file.parameters_of(trace)["b"], {"order": 2, "ready": 7, "reduction": 4, "together": 2})

    def test_a_trace_that_is_cut_gives_what_it_has(self):
        text = trace_text()
        trace = trace_file.read_trace(text[:text.index('"generation": 2') + 400])
        self.assertEqual((len(trace["steps"]), trace["lost"]), (2, 1))

    def test_what_has_no_steps_is_told(self):
        for text, reason in (("", "no JSON"), ("{}", "no list"), ('{"traceEvents":[{"name":"matmul","ph":"X","ts":1,"dur":2,"pid":1,"tid":0,"args":{}}]}', "no steps"), ("[" * 100000, "no JSON")):
            with self.assertRaisesRegex(trace_file.TraceError, reason):
                trace_file.read_trace(text)

    def test_strange_events_are_passed_over(self):
        strange = [{"ph": "X", "ts": "a", "dur": None, "args": {"generation": 1}}, {"ph": "M", "args": []}, {"ph": "i", "name": "final: w", "ts": float("inf"), "pid": [1], "tid": 0}, 7]
        content = json.loads(trace_text())
        content["traceEvents"] += strange
        self.assertEqual(len(trace_file.read_trace(json.dumps(content))["steps"]), 2)


class Pages(InFolder):
    def test_one_file_that_needs_nothing(self):
        self.path.write_text('{"iteration":1,"loss":2}\n')
        (self.folder / "trace.json").write_text(trace_text())
        done = self.report(self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^wrote .*/report\.html \(\d+ kB|MB\)\n$")
        page = (self.folder / "report.html").read_text()
        for word in ("Permission is hereby granted", "Dan Vanderkam", "default-src 'none'", "connect-src 'none'"):
            self.assertIn(word, page)
        self.assertNotRegex(page, r"<(script|link|img|iframe)[^>]*(src|href)=")
        data = data_of(page)
        self.assertEqual([row["name"] for row in data["runs"][0]["parameters"]], ["w", "b"])
        self.assertEqual(unpacked(data["arrays"][data["runs"][0]["series"][0]["y"]]), [2.0])
        self.assertEqual([path.name for path in self.folder.iterdir() if "report" in path.name], ["report.html"])

    def test_texts_of_runs_stay_texts(self):
        evil = "</script><script>alert(1)</script><!--"
        run = self.folder / "<img src=x onerror=alert(1)>"
        run.mkdir()
        (run / "metrics.jsonl").write_text(json.dumps({"iteration": 1, evil: 1.0, "text": evil}) + "\n" + evil + "\n")
        (run / "run.json").write_text(json.dumps({"outcome": "failed", "reason": evil, "options": {evil: evil}, "parameters": [{"name": evil}]}))
        self.assertEqual(self.report(run, "--output", "page.html").returncode, 0)
        page = (self.folder / "page.html").read_text()
        self.assertEqual(page.count("</script>"), 3)  # the data's, the library's, the page's own
        self.assertNotIn("<img", page)
        self.assertNotIn("alert(1)</script>", page)
        self.assertIn(evil, [series["name"] for series in data_of(page)["runs"][0]["series"]])

    def test_other_files_are_not_replaced(self):
        self.path.write_text('{"iteration":1,"loss":2}\n')
        other = self.folder / "notes.html"
        other.write_text("mine")
        done = self.report(self.path, "--output", other)
        self.assertEqual((done.returncode, other.read_text()), (1, "mine"))
        self.assertIn("is no report: --force", done.stderr)
        self.assertEqual(self.report(self.path, "--output", other, "--force").returncode, 0)
        self.assertEqual(self.report(self.path, "--output", other).returncode, 0)
        self.assertEqual(self.report(self.path, "--output", self.folder / "none/report.html").returncode, 1)

    def test_what_cannot_be_read_is_told(self):
        for text, word in (("", "has no values"), ("x\n", "line 1 is no JSON"), ('{"a"', "no line is whole yet")):
            self.path.write_text(text)
            done = self.report(self.folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn(word, done.stderr)
        self.assertIn("there is no nowhere", self.report("nowhere").stderr)
        self.path.unlink()
        self.assertIn("no *.jsonl, no trace.json and no run.json", self.report(self.folder).stderr)

    def test_broken_neighbours_do_not_matter(self):
        self.path.write_text('{"iteration":1,"loss":2}\n')
        (self.folder / "trace.json").write_text("{")
        (self.folder / "run.json").write_text("[]")
        self.assertEqual(self.report(self.folder).returncode, 0)
        troubles = data_of((self.folder / "report.html").read_text())["runs"][0]["troubles"]
        self.assertEqual([trouble.split()[0] for trouble in troubles], ["trace.json", "run.json"])

    def test_the_trace_of_an_earlier_run_is_left_out(self):
        self.path.write_text('{"iteration":1,"loss":2}\n')
        (self.folder / "trace.json").write_text(trace_text())
        for started, has_steps in (("2001-01-01T00:00:00Z", True), ("2999-01-01T00:00:00Z", False), ("soon", True)):
            (self.folder / "run.json").write_text(json.dumps({"started": started}))
            self.report(self.folder)
            run = data_of((self.folder / "report.html").read_text())["runs"][0]
            self.assertEqual((run["trace"] is not None, bool(run["parameters"]), len(run["troubles"])), (has_steps, has_steps, int(not has_steps)))
        (self.folder / "trace.json").write_text("")  # as it is until a run's end
        self.report(self.folder)
        self.assertEqual(data_of((self.folder / "report.html").read_text())["runs"][0]["troubles"], [])

    def test_several_runs_are_told_apart(self):
        for name in ("a/run", "b/run"):
            (self.folder / name).mkdir(parents=True)
            (self.folder / name / "log.jsonl").write_text('{"iteration":1,"loss":2}\n')
        self.assertEqual(self.report("a/run", "b/run", "a/run").returncode, 0)
        data = data_of((self.folder / "report.html").read_text())
        self.assertEqual(len({run["name"] for run in data["runs"]}), 3)
        self.assertEqual(len(data["charts"][0]["members"]), 3)

    def test_words_that_mean_nothing(self):
        for words, text in (([], "a RUN is missing"), (["--fast", "x"], "unknown option '--fast'"), (["--output"], "--output needs a file"), (["x", "--port", "1"], "--port is of --live"),
                            (["--live", "--port=70000", "x"], "--port '70000'"), (["--live", "--output", "y", "x"], "--live writes no file")):
            done = self.report(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(text, done.stderr)
        self.assertIn("usage: tutti report", self.report("--help").stdout)

    def test_a_missing_library_is_named(self):
        with self.assertRaisesRegex(report_page.PageError, r"dygraphs is missing \(Debian: libjs-dygraphs\)"):
            report_page.Library(folders=[self.folder])

    def test_names_are_as_short_as_they_can_be(self):
        paths = [pathlib.Path(path) for path in ("/x/a/run", "/x/b/run", "/x/c")]
        self.assertEqual(run_files.short_names(paths), ["a/run", "b/run", "c"])


class Demos(InFolder):
    """A demo's program, and the report behind it."""

    def start(self, script):
        return subprocess.Popen([ROOT / "tools/dev/run_then_report.py", self.folder, sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=os.environ | {"TUTTI_CALLED_FROM": "/"})

    def outcome(self, running):
        said, told = running.communicate(timeout=60)
        return running.returncode, said, told

    def test_a_run_ends_with_its_report(self):
        status, said, told = self.outcome(self.start("import sys; open('metrics.jsonl', 'w').write('{\"epoch\":1,\"loss\":2}\\n'); print('figures'); sys.exit(3)"))
        self.assertEqual((status, said), (3, "figures\n"))
        seen = str(self.folder.resolve()).lstrip("/")  # from where ./dev was called
        self.assertIn(f"{seen}/report.html: ./dev report --open {seen}\n", told)
        self.assertTrue((self.folder / "report.html").is_file())

    def test_what_wrote_nothing_has_none(self):
        self.path.write_text('{"epoch":1,"loss":2}\n')
        os.utime(self.path, (0, 0))
        self.assertEqual(self.outcome(self.start("print('usage')")), (0, "usage\n", ""))

    def test_signals_go_to_the_program(self):
        running = self.start("import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\nprint('ready', flush=True)\ntime.sleep(60)")
        self.assertEqual(running.stdout.readline(), "ready\n")
        running.send_signal(signal.SIGTERM)
        self.assertEqual(self.outcome(running)[0], 9)
        self.assertEqual(self.outcome(self.start("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))[0], -signal.SIGKILL)


class Live(InFolder):
    def setUp(self):
        super().setUp()
        self.path.write_text('{"iteration":1,"loss":2}\n')
        self.server = subprocess.Popen([sys.executable, PROGRAM, "--live", self.folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
        self.addCleanup(self.end)
        self.address = self.server.stdout.readline().split()[0]
        self.port = int(self.address.rstrip("/").rpartition(":")[2])

    def end(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()
        self.server.stderr.close()

    def ask(self, path, host=None, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{self.port}"})
        answer = connection.getresponse()
        content = answer.read().decode()
        connection.close()
        return answer.status, content

    def test_new_values_come_and_nothing_else_is_served(self):
        status, page = self.ask("/")
        self.assertEqual(status, 200)
        self.assertIn("connect-src 'self'", page)
        have = data_of(page)["live"]
        self.assertEqual(self.ask(f"/data?have={have}"), (204, ""))
        with open(self.path, "a") as more:
            more.write('{"iteration":2,"loss":1}\n{"iteration":3,"lo')
        status, text = self.ask(f"/data?have={have}")
        self.assertEqual((status, json.loads(text)["runs"][0]["series"][0]["count"]), (200, 2))
        for path in ("/metrics.jsonl", "/../metrics.jsonl", "/etc/passwd", "/data/"):
            self.assertEqual(self.ask(path)[0], 404)
        self.assertEqual(self.ask("/", method="POST")[0], 501)
        self.assertEqual(self.ask("/", method="HEAD"), (200, ""))

    def test_other_names_of_this_host_are_refused(self):
        for host in ("evil.example", f"evil.example:{self.port}", "127.0.0.1", f"127.0.0.1:{self.port + 1}"):
            self.assertEqual(self.ask("/data?have=0", host)[0], 403, host)
        self.assertEqual(self.ask("/", f"localhost:{self.port}")[0], 200)

    def test_a_file_that_goes_away_is_no_end(self):
        self.path.unlink()
        self.assertEqual(self.ask("/data?have=0")[0], 200)
        self.path.write_text('{"iteration":5,"loss":2}\n')
        self.assertEqual(json.loads(self.ask("/data?have=0")[1])["runs"][0]["series"][0]["last_x"], 5)

    def test_a_taken_port_is_told(self):
        done = self.report("--live", "--port", self.port, self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot serve on port {self.port}", done.stderr)

    def test_ctrl_c_ends_it(self):
        self.server.send_signal(signal.SIGINT)
        self.assertEqual(self.server.wait(20), 0)
        self.assertEqual(self.server.stderr.read(), "")


if __name__ == "__main__":
    unittest.main()
