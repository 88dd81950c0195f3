#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tutti report` without a browser: how pages are written of whole, broken and hostile files, behind a demo, and how they are
served."""

import http.client
import io
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
import unittest

from report_files import PROGRAM, ROOT, InFolder, data_of, trace_text, unpacked

import live_server  # of the program, whose folder report_files names
import report_page
import run_files
import tutti_report


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

    def test_large_runs_say_how_far_they_are_read(self):
        self.path.write_bytes(b" " * 4_000_000)
        course = tutti_report.Course(run_files.open_runs([self.folder]))
        course.line, course.began = tutti_report.ProgressLine(io.StringIO(), 0.0), course.began - 10
        for count in (1_000_000, 3_000_000):
            course.read(count)
        course.make()
        self.assertEqual(course.line.stream.getvalue(), "read 0 of 4 MB, 10 s\nread 1 of 4 MB, 10 s, 6 MB/min, about 70 s left\n"
                                                        "making the page, 10 s, about 10 s left\n")

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

    def test_paths_that_are_no_text(self):
        run = os.fsencode(self.folder) + b"/r\xffn"
        os.mkdir(run)
        pathlib.Path(os.fsdecode(run), "log.jsonl").write_text('{"iteration":1,"loss":2}\n')
        self.assertEqual(self.report(os.fsdecode(run)).stderr, "")
        self.assertTrue(os.path.isfile(run + b"/report.html"))

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
        self.assertIn("File name too long", self.report(self.path, "--output", "n" * 300).stderr)

    def test_what_is_read_and_what_is_no_file_are_never_replaced(self):
        self.path.write_text('{"iteration":1,"loss":2}\n')
        (self.folder / "link").symlink_to(self.path)
        os.mkfifo(self.folder / "pipe")
        for output, text in ((self.path, "is what the report is made of"), ("link", "is what the report is made of"), ("pipe", "is no file"), ("/dev/null", "is no file")):
            done = self.report(self.folder, "--force", "--output", output)
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stderr)
        self.assertEqual(self.path.read_text(), '{"iteration":1,"loss":2}\n')

    def test_a_page_that_cannot_be_written_leaves_nothing(self):
        with self.assertRaisesRegex(report_page.PageError, "File too large"):
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
            try:
                report_page.write_page(self.folder / "page.html", "x" * 100000, False)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_cannot_be_read_is_told(self):
        for text, word in (("", "has no values"), ("x\n", "line 1 is no JSON"), ('{"a"', "no line is whole yet")):
            self.path.write_text(text)
            done = self.report(self.folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn(word, done.stderr)
        self.assertIn("there is no nowhere", self.report("nowhere").stderr)
        self.assertIn(f"there is no {self.path}/x", self.report(self.path / "x").stderr)
        self.assertIn("File name too long", self.report("n" * 300).stderr)
        self.path.unlink()
        self.assertIn("no *.jsonl, no trace.json and no run.json", self.report(self.folder).stderr)

    def test_a_file_that_cannot_be_read_is_told_beside_the_others(self):
        (self.folder / "broken.jsonl").symlink_to("/proc/self/mem")  # a file that opens, and whose reading fails, for root too
        done = self.report(self.folder)
        self.assertEqual((done.returncode, "broken.jsonl: Input/output error" in done.stderr), (1, True))
        for name, text in (("run.json", '{"outcome":"finished"}'), ("metrics.jsonl", '{"iteration":1,"loss":2}\n')):
            (self.folder / name).write_text(text)
            done = self.report(self.folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            run = data_of((self.folder / "report.html").read_text())["runs"][0]
            self.assertEqual(run["troubles"], ["broken.jsonl cannot be read: Input/output error"])
        self.assertEqual([series["name"] for series in run["series"]], ["loss"])
        self.assertEqual(self.report(self.folder / "broken.jsonl").returncode, 0)  # of run.json beside it
        (self.folder / "run.json").unlink()
        self.assertIn("Input/output error", self.report(self.folder / "broken.jsonl").stderr)

    def test_a_file_that_can_be_read_again_is_no_trouble_any_more(self):
        self.path.write_text('{"iteration":1,"loss":2}\n')
        broken = self.folder / "broken.jsonl"
        broken.symlink_to("/proc/self/mem")
        run = run_files.Run(self.folder, "run")
        self.assertEqual([run.read(), run.read(), len(run.unreadable)], [True, False, 1])
        broken.unlink()
        broken.write_text('{"iteration":1,"lr":2}\n')
        self.assertEqual([run.read(), run.read(), run.unreadable, run.value_count()], [True, False, {}, 2])

    def test_broken_neighbours_do_not_matter(self):
        self.path.write_text('{"iteration":1,"loss":2}\n')
        (self.folder / "trace.json").write_text("{")
        for record in ("[]", '{"options":' + "[" * 600 + "]" * 600 + "}"):
            (self.folder / "run.json").write_text(record)
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

    def test_a_trace_or_a_record_alone_is_no_file_of_metrics(self):
        for name, text in (("trace.json", trace_text()), ("run.json", '{"outcome":"finished"}')):
            (self.folder / name).write_text(text)
            self.assertEqual(self.report(self.folder / name).returncode, 0)
            run = data_of((self.folder / "report.html").read_text())["runs"][0]
            self.assertEqual((run["files"], run["trace"] is not None), ([], True))
            self.path.write_text('{"iteration":1,"loss":2}\n')
        (self.folder / "run.json").unlink()
        (self.folder / "trace.json").write_text("[")
        self.assertIn("trace.json cannot be read", self.report(self.folder / "trace.json").stderr)

    def test_a_folder_of_runs_names_one(self):
        (self.folder / "runs/a").mkdir(parents=True)
        (self.folder / "runs/a/log.jsonl").write_text('{"iteration":1,"loss":2}\n')
        self.assertIn("no trace.json and no run.json; runs/a has\n", self.report("runs").stderr)

    def test_several_runs_are_told_apart(self):
        for name in ("a/run", "b/run"):
            (self.folder / name).mkdir(parents=True)
            (self.folder / name / "log.jsonl").write_text('{"iteration":1,"loss":2}\n')
        self.assertEqual(self.report("a/run", "b/run", "a/run").returncode, 0)
        data = data_of((self.folder / "report.html").read_text())
        self.assertEqual(len({run["name"] for run in data["runs"]}), 3)
        self.assertEqual(len(data["charts"][0]["members"]), 3)

    def test_words_that_mean_nothing(self):
        for words, text in (([], "a RUN is missing"), (["--fast", "x"], "unknown option '--fast'"), (["--output"], "--output needs a file"), (["--output", "--force", "x"], "--output needs a file"), (["--live", "--port", "9" * 5000, "x"], "is no number from 0"), (["x", "--port", "1"], "--port is of --live"),
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

    def start(self, script, called_from="/", **options):
        return subprocess.Popen([ROOT / "tools/dev/run_then_report.py", self.folder, sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=os.environ | {"TUTTI_CALLED_FROM": called_from}, **options)

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

    def test_what_ignores_an_interrupt_goes_on(self):
        ignores = "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
        self.assertEqual(self.outcome(self.start(ignores, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)))[1], "True\n")
        self.assertEqual(self.outcome(self.start(ignores, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)))[1], "False\n")

    def test_the_program_dies_with_what_started_it(self):
        running = self.start("import os, time\nprint('ready', flush=True)\ntime.sleep(60)")
        self.assertEqual(running.stdout.readline(), "ready\n")
        running.kill()
        self.assertEqual(running.communicate(timeout=20)[0], "")  # its output is closed

    def test_the_report_is_named_from_behind_a_link(self):
        (self.folder / "far/in").mkdir(parents=True)
        link = self.folder / "link"
        link.symlink_to("far/in")
        told = self.outcome(self.start("open('metrics.jsonl', 'w').write('{\"epoch\":1,\"loss\":2}\\n')", called_from=str(link)))[2]
        self.assertIn("./dev report --open ../..\n", told)


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
        for host in ("evil.example", f"evil.example:{self.port}", "127.0.0.1.evil.example", "localhost@evil.example", f"x:127.0.0.1:{self.port}", "127.0.0.1:"):
            self.assertEqual(self.ask("/data?have=0", host)[0], 403, host)
        for host in (f"localhost:{self.port}", f"127.0.0.1:{self.port + 1}", "LocalHost", "127.0.0.1"):  # forwarded ports, and that of browsers
            self.assertEqual(self.ask("/", host)[0], 200, host)

    def test_a_file_that_goes_away_is_no_end(self):
        self.path.unlink()
        self.assertEqual(self.ask("/data?have=0")[0], 200)
        self.path.write_text('{"iteration":5,"loss":2}\n')
        self.assertEqual(json.loads(self.ask("/data?have=0")[1])["runs"][0]["series"][0]["last_x"], 5)

    def test_values_read_before_an_error_are_no_less_there(self):
        second, aside = self.folder / "second", self.folder / "aside"
        second.mkdir()
        (second / "log.jsonl").write_text('{"iteration":1,"other":2}\n')
        source = live_server.Source(run_files.open_runs([self.folder, second]), report_page.Library())
        source.refresh()
        self.assertEqual(source.newer(source.version), "")
        second.rename(aside)
        second.write_text("no folder")
        with open(self.path, "a") as more:
            more.write('{"iteration":2,"loss":1}\n')
        with self.assertRaisesRegex(run_files.RunError, "Not a directory"):
            source.refresh()
        second.unlink()
        aside.rename(second)
        self.assertEqual(json.loads(source.newer(source.version))["runs"][0]["series"][0]["count"], 2)

    def test_a_file_that_cannot_be_read_any_more_keeps_what_it_had(self):
        other = self.folder / "other.jsonl"
        other.write_text('{"iteration":1,"other":2}\n')
        source = live_server.Source(run_files.open_runs([self.folder]), report_page.Library())
        source.refresh()
        other.unlink()
        other.symlink_to(other)
        with open(self.path, "a") as more:
            more.write('{"iteration":2,"loss":1}\n')
        run = json.loads(source.newer(source.version))["runs"][0]
        self.assertEqual([series["count"] for series in run["series"]], [2, 1])
        self.assertEqual(run["troubles"], ["other.jsonl cannot be read: Too many levels of symbolic links"])

    def test_what_takes_long_is_not_made_for_every_tab(self):
        source = live_server.Source(run_files.open_runs([self.folder]), report_page.Library())
        source.refresh()
        self.assertEqual(source.due, 0)  # that was short
        first = source.version
        with open(self.path, "a") as more:
            more.write('{"iteration":2,"loss":1}\n')
        source.due = time.monotonic() + 60
        self.assertEqual((source.newer(first), json.loads(source.newer("another"))["live"]), ("", first))
        source.due = time.monotonic()
        self.assertEqual(json.loads(source.newer(first))["runs"][0]["series"][0]["count"], 2)

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
