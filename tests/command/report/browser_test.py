#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages of `tutti report` in a real browser: curves, zoom, hover, comparison, the timeline, broken files, a run that goes on,
and the documents' pictures."""

import json
import math
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))

import pictures  # noqa: E402
import report_files  # noqa: E402
import webdriver  # noqa: E402

PROGRAM = ROOT / "command/report/tutti_report.py"
CHART = "[...page.charts.values()].find((entry) => entry.spec.title === {!r}).chart"


class InBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = webdriver.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def tearDown(self):
        self.assertEqual(self.browser.errors(), [])

    def run_folder(self, name, lines, trace=False, record=None):
        folder = self.folder / name
        folder.mkdir()
        (folder / "log.jsonl").write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        if trace:
            (folder / "trace.json").write_text(report_files.trace_text())
        if record:
            (folder / "run.json").write_text(json.dumps(record))
        return folder

    def show(self, *runs):
        page = self.folder / "page.html"
        done = subprocess.run([sys.executable, PROGRAM, "--output", page, *runs], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.browser.open(page)
        self.wait_for_charts()

    def wait_for_charts(self):
        self.browser.wait(pictures.DRAWN, seconds=60)

    def chart(self, title):
        self.browser.run(f"{CHART.format(title)}.plot.scrollIntoView({{block: 'center'}});")
        return self.browser.run(f"return {CHART.format(title)}.plot;")

    def drawn(self, title):
        """The finite values that a chart has drawn of its first line."""
        return self.browser.run(f"return {CHART.format(title)}.graph.file_.map((row) => row[1]).filter((value) => value !== null && !Number.isNaN(value));")

    def window(self, title):
        return self.browser.run(f"return {CHART.format(title)}.graph.xAxisRange();")

    def legend(self, title):
        return self.browser.run(f"return {CHART.format(title)}.legend.innerText;")

    def text(self, selector):
        return self.browser.run("return document.querySelector(arguments[0]).innerText;", selector)


class Curves(InBrowser):
    def test_a_spike_among_many_values_is_drawn_at_every_zoom(self):
        chance = random.Random(1)
        lines = [{"iteration": i, "loss": 100.0 if i == 54321 else chance.random()} for i in range(100000)]
        self.show(self.run_folder("run", lines))
        drawn = self.drawn("loss")
        self.assertEqual(max(drawn), 100.0)
        self.assertLess(len(drawn), 20000)
        self.assertEqual(self.browser.run(f"return {CHART.format('loss')}.graph.hidden_ctx_.lineJoin;"), "round")  # corners end where values do
        plot = self.chart("loss")
        self.browser.run(f"{CHART.format('loss')}.choose([54000, 54900]);")
        self.browser.wait(f"{CHART.format('loss')}.graph.xAxisRange()[0] > 53000")
        inside = self.browser.run(f"return {CHART.format('loss')}.graph.file_.filter((row) => row[0] >= 54000 && row[0] <= 54900);")
        self.assertGreaterEqual(len(inside), 900)
        self.assertTrue(all(row[1] == lines[int(row[0])]["loss"] for row in inside))
        for _ in range(20):  # on a machine that is busy two clicks may be too far apart
            self.browser.point(plot, (0, 0), clicks=2)
            if self.browser.run(f"return {CHART.format('loss')}.window === null;"):
                break
        self.browser.wait(f"{CHART.format('loss')}.graph.xAxisRange()[1] > 99000")
        self.assertEqual(max(self.drawn("loss")), 100.0)

    def test_each_pixel_keeps_its_extremes_and_its_ends(self):
        self.show(self.run_folder("run", [{"iteration": 1, "loss": 1}]))
        faults = self.browser.run("""
            const count = 50000, x = new Float64Array(count), wholes = new Float64Array(count), y = new Float64Array(count), faults = [];
            let state = 1, at = 0;
            const chance = () => (state = (state * 48271) % 2147483647) / 2147483647;
            for (let i = 0; i < count; ++i) {
              at += chance() < 0.1 ? 0 : chance() < 0.001 ? 5000 : 1;  // the same place twice, and gaps
              wholes[i] = at;
              y[i] = chance() < 0.001 ? NaN : chance() < 0.001 ? -Infinity : chance() - 0.5;
            }
            const windows = [[0, at], [1000, 30000], [-5000, 2000], [at - 100, at + 100], [20000, 20000], [at + 10, at + 20]], before = at;
            for (const [begin, end, shift, scale] of windows.flatMap((window) => [[...window, 0, 1], [...window, before, 1e-6]])) {  // and all below 0
              const [low, high] = [scale * (begin - shift), scale * (end - shift)];
              x.forEach((_, i) => { x[i] = scale * (wholes[i] - shift); });
              const columns = 300, places = placesToDraw(x, y, low, high, columns), kept = new Set(places);
              if (places.some((place, k) => k > 0 && place <= places[k - 1])) faults.push("order");
              const first = Math.max(low, x[0]), last = Math.min(high, x[count - 1]), found = new Map();
              for (let i = 0; i < count; ++i) {
                if (x[i] < first || x[i] > last || !Number.isFinite(y[i])) continue;
                const column = Math.floor((x[i] - first) * columns / (last - first)), range = found.get(column) ?? [i, i];
                found.set(column, [y[i] < y[range[0]] ? i : range[0], y[i] > y[range[1]] ? i : range[1]]);
              }
              for (const range of found.values()) if (!range.every((place) => kept.has(place))) faults.push(`${low} to ${high}: ${range}`);
              if (places.length > 5 * (columns + 1) + 10 * Math.max(20, columns >> 3) + 20) faults.push(`${places.length} places`);
            }
            return faults;""")
        self.assertEqual(faults, [])

    def test_dragging_zooms_all_charts_of_an_axis(self):
        self.show(self.run_folder("run", [{"iteration": i, "loss": 1 / (1 + i), "lr": 0.1} for i in range(1000)]))
        plot = self.chart("loss")
        self.browser.drag(plot, (-60, 0), (90, 0))
        self.browser.wait(f"{CHART.format('loss')}.window !== null")
        low, high = self.window("loss")
        self.assertGreater(low, 200)
        self.assertLess(high, 900)
        self.browser.wait(f"{CHART.format('lr')}.window !== null")
        self.browser.drag(plot, (0, 0), (60, 0), shift=True)
        self.browser.wait(f"{CHART.format('loss')}.graph.xAxisRange()[0] < {low - 2}")
        self.browser.run("document.querySelector('#reset').click();")
        self.browser.wait(f"{CHART.format('lr')}.window === null")

    def test_dragging_upwards_zooms_the_values_of_one_chart(self):
        self.show(self.run_folder("run", [{"iteration": i, "loss": 1 + i % 7, "lr": 0.1} for i in range(200)]))
        plot = self.chart("loss")
        range_of = f"{CHART.format('loss')}.graph.yAxisRange()"
        self.browser.drag(plot, (0, -40), (0, 40))
        self.browser.wait(f"{CHART.format('loss')}.values !== null")
        low, high = self.browser.run(f"return {CHART.format('loss')}.values;")
        self.assertTrue(1.5 < low < high < 6.5)
        self.browser.drag(plot, (-60, 0), (90, 0))
        self.browser.wait(f"{CHART.format('loss')}.window !== null && {CHART.format('loss')}.graph.xAxisRange()[0] > 10")
        self.assertEqual(self.browser.run(f"return {range_of};"), [low, high])
        self.browser.drag(plot, (0, 0), (0, 40), shift=True)
        self.browser.wait(f"{range_of}[1] > {high}")
        self.browser.run("document.querySelector('#smoothing').value = 3; document.querySelector('#smoothing').dispatchEvent(new Event('input'));")
        self.browser.wait(f"{CHART.format('loss')}.lines.length === 2 && {CHART.format('loss')}.graph?.numColumns() === 3")
        self.assertGreater(self.browser.run(f"return {range_of};")[1], high)
        self.browser.run(f"{CHART.format('loss')}.showAll();")
        self.browser.wait(f"{range_of}[0] < 1 && {range_of}[1] > 7")

    def test_the_keyboard_zooms_and_pans(self):
        self.show(self.run_folder("run", [{"iteration": i, "loss": i} for i in range(1000)]))
        plot = self.chart("loss")
        self.browser.press(plot, "++")
        self.browser.wait(f"{CHART.format('loss')}.window !== null")
        low, _ = self.window("loss")
        self.browser.press(plot, "\ue012")  # the left arrow
        self.browser.wait(f"{CHART.format('loss')}.graph.xAxisRange()[0] < {low}")
        self.browser.press(plot, "0")
        self.browser.wait(f"{CHART.format('loss')}.window === null")

    def test_pointing_tells_values_and_the_range_of_a_pixel(self):
        self.show(self.run_folder("run", [{"iteration": i, "loss": float(i % 2)} for i in range(100001)]))
        self.browser.point(self.chart("loss"), (20, 0))
        self.browser.wait(f"{CHART.format('loss')}.legend.innerText.includes('0 … 1')")
        self.assertIn("at iteration ", self.legend("loss"))
        self.browser.run(f"{CHART.format('loss')}.choose([50000, 50010]);")
        self.browser.wait(f"{CHART.format('loss')}.graph.xAxisRange()[0] > 49000")
        self.browser.point(self.chart("loss"), (21, 0))
        self.browser.wait(f"/^at iteration 50.00\\d\\b/m.test({CHART.format('loss')}.legend.innerText.replace(/^\\s+/, '')) && !{CHART.format('loss')}.legend.innerText.includes('…')")

    def test_smoothing_and_log_scale(self):
        self.show(self.run_folder("run", [{"iteration": i, "loss": 1.0 + i % 2} for i in range(1000)] + [{"iteration": 1000, "loss": 0.0}]))
        self.browser.run("const s = document.querySelector('#smoothing'); s.value = 4; s.dispatchEvent(new Event('input'));")
        self.browser.wait(f"{CHART.format('loss')}.lines.length === 2 && {CHART.format('loss')}.graph.numColumns() === 3")
        means = self.browser.run(f"return [...{CHART.format('loss')}.lines[1].y.slice(500, 510)];")
        self.assertTrue(all(math.isclose(mean, 1.5) for mean in means), means)
        self.browser.run(f"const c = {CHART.format('loss')}; c.members[0].described.bucket = 100; c.makeNotes(); c.members[0].described.bucket = 1;")
        self.assertIn("each 100 are shown by their first, smallest, largest and last, and smoothed by the mean of these", self.browser.run(f"return {CHART.format('loss')}.notes.innerText;"))
        self.browser.run("document.querySelector('#log').click();")
        self.browser.wait(f"{CHART.format('loss')}.graph?.getOption('logscale')")
        self.browser.wait(f"{CHART.format('loss')}.notes.innerText.includes('1 value of 0 or less')")

    def test_what_is_not_finite_breaks_the_line_and_is_counted(self):
        self.show(self.run_folder("run", [{"iteration": i, "loss": None if i == 5 else 1.0} for i in range(10)]))
        rows = self.browser.run(f"return {CHART.format('loss')}.graph.file_.map((row) => Number.isNaN(row[1]));")
        self.assertEqual([place for place, broken in enumerate(rows) if broken], [5])
        self.assertIn("1 null (NaN or infinite)", self.browser.run(f"return {CHART.format('loss')}.notes.innerText;"))

    def test_a_resumed_run_shows_what_counts_and_what_was_before(self):
        lines = [{"iteration": i, "loss": 1.0} for i in range(20)] + [{"iteration": i, "loss": 2.0} for i in range(10, 30)]
        self.show(self.run_folder("run", lines))
        self.assertEqual(self.browser.run(f"return {CHART.format('loss')}.lines.map((line) => line.places.length);"), [10, 30])
        self.assertIn("went back 1 time, to 10", self.browser.run(f"return {CHART.format('loss')}.notes.innerText;"))


class Pages(InBrowser):
    def test_two_runs_beside_each_other(self):
        first = self.run_folder("first", [{"iteration": i, "loss": 2.0, "validation_loss": 3.0} for i in range(50)], record={"options": {"rate": "0.1"}, "outcome": "finished"})
        second = self.run_folder("second", [{"iteration": i, "loss": 1.0} for i in range(80)], record={"options": {"rate": "0.2"}, "outcome": "failed", "reason": "the loss is nan"})
        self.show(first, second)
        self.assertEqual(self.browser.run("return page.data.charts.length;"), 1)
        self.assertEqual(self.browser.run(f"return {CHART.format('loss')}.lines.length;"), 3)
        for word in ("loss · first", "validation_loss · first", "loss · second"):
            self.assertIn(word, self.legend("loss"))
        self.assertIn("the loss is nan", self.text("#runs"))
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('#records td.best')].map((cell) => cell.innerText);"), ["0.1", "0.2"])
        self.browser.run("document.querySelector('#shown input').click();")
        self.browser.wait(f"{CHART.format('loss')}.lines.length === 1")

    def test_the_same_name_in_several_files_and_over_several_axes(self):
        run = self.run_folder("run", [{"iteration": 1, "loss": 1}, {"iteration": 2, "loss": 2}, {"epoch": 1, "loss": 3}])
        (run / "valid.jsonl").write_text('{"iteration":1,"loss":4}\n{"iteration":2,"loss":5}\n')
        self.show(run)
        chart = "[...page.charts.values()].find((entry) => entry.spec.axis === 'iteration').chart"
        self.assertEqual(self.browser.run(f"return {chart}.members.map((member) => member.label);"), ["loss · log.jsonl", "loss · valid.jsonl"])
        self.assertEqual(self.browser.run(f"return new Set({chart}.members.map((member) => member.colour)).size;"), 2)
        rows = self.browser.run("return [...document.querySelectorAll('#figures-table tr')].slice(1).map((row) => [...row.cells].slice(0, 2).map((cell) => cell.innerText));")
        self.assertEqual(sorted(rows), [["loss · log.jsonl, over iteration", "2"], ["loss · valid.jsonl, over iteration", "5"], ["loss, over epoch", "3"]])

    def test_names_that_objects_have_anyway(self):
        lines = [{"iteration": 1, "constructor": 1, "__proto__": 2, "": 3, "a\0b": 4, "\ud800": 5}]
        record = {"options": {"constructor": "c", "toString": "t", "__proto__": "p"}, "messages": [{"level": "constructor", "text": "said"}], "parameters": [{"name": "constructor", "gradient_norm": {"a": 1}}]}
        self.show(self.run_folder("first", lines, record=record), self.run_folder("second", lines, record={"options": {}}))
        self.assertEqual(self.browser.run("return page.charts.size;"), 5)
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('#records td.best')].map((cell) => cell.innerText);"), ["c", "–", "t", "–", "p", "–"])
        self.assertNotIn("said", self.text("#runs"))
        self.assertNotIn("∞", self.text("#parameters"))

    def test_steps_buckets_and_parameters(self):
        self.show(self.run_folder("run", [{"iteration": 1, "loss": 1}], trace=True, record={"parameters": [{"name": "w", "shape": [3, 4], "size": 12, "dtype": "f32", "gradient_norm": 0.5}]}))
        self.assertEqual(self.browser.run("return document.querySelectorAll('svg.detail .backward').length;"), 2)
        self.assertEqual(self.browser.run("return document.querySelectorAll('svg.detail .ready').length;"), 4)
        buckets = self.text("#buckets")
        for word in ("w, b", "7\u202fµs · 8\u202fµs", "8.5\u202fµs", "12.5\u202fµs", "4\u202fµs", "1.5\u202fµs"):  # ready, launched, finished, took, exposed
            self.assertIn(word, buckets)
        self.browser.run("document.querySelector('#timeline').scrollIntoView({block: 'center'});")
        self.assertEqual(self.browser.run("return document.querySelectorAll('svg.detail .forward').length;"), 2)
        self.assertEqual(self.browser.run("return [...document.querySelector('#steps-table').rows].map((row) => row.cells[2].innerText);"), ["forward", "4\u202fµs"])
        keys = self.text("#timeline .keys")
        for word in ("forward: from the step's opening to its synchronised backward", "data, optimizer (between steps"):
            self.assertIn(word, keys)
        self.browser.point(self.browser.element("svg.detail .forward"))
        self.browser.wait("document.querySelector('.told').innerText === 'cpu:0: forward from −4\u202fµs to 0\u202fµs, 4\u202fµs'")
        self.browser.point(self.browser.element("svg.detail .backward"), (20, 0))
        self.browser.wait("document.querySelector('.told').innerText.startsWith('cpu:0: backward from 0')")
        self.browser.run("document.querySelector('[aria-label=\"The step before\"]').click();")
        self.browser.wait("document.querySelector('#timeline output').innerText.startsWith('generation 1 ')")
        svg = self.browser.element("svg.detail")
        self.browser.run("document.querySelector('svg.detail').scrollIntoView({block: 'center'});")
        self.browser.drag(svg, (0, 40), (200, 40))
        self.browser.wait("page.timeline.window !== null")
        table = self.text("#parameter-table")
        for word in ("3 × 4", "0.5", "w", "b"):
            self.assertIn(word, table)
        self.browser.run("[...document.querySelectorAll('#parameter-table th button')].find((each) => each.innerText.startsWith('ready as')).click();")
        self.assertEqual(self.browser.run("return document.querySelector('#parameter-table td').innerText;"), "w")

    def test_a_trace_that_does_not_say_when_steps_were_opened(self):
        run = self.run_folder("run", [{"iteration": 1, "loss": 1}], trace=True)
        (run / "trace.json").write_text(report_files.older_trace_text())
        self.show(run)
        self.assertEqual(self.browser.run("return [document.querySelectorAll('svg.detail .forward').length, document.querySelectorAll('svg.detail .before').length];"), [0, 2])
        self.assertEqual(self.browser.run("return document.querySelector('#steps-table').rows[1].cells[2].innerText;"), "–")
        self.assertIn("forward, data, optimizer (before backward; not recorded apart)", self.text("#timeline .keys"))

    def test_what_two_processes_hide_is_named_as_the_figures_have_it(self):
        run = self.run_folder("run", [{"iteration": 1, "loss": 1}, {"reduction_hidden": 0.15}], trace=True)
        (run / "trace.json").write_text(report_files.trace_of_two_processes())
        self.show(run)
        cells = dict(self.browser.run("return [...document.querySelector('#steps-table').rows[0].cells].map((head, k) => [head.innerText, document.querySelector('#steps-table').rows[1].cells[k].innerText]);"))
        self.assertEqual(cells["hidden behind own process's backwards"], "rank 0: 15 %, rank 1: 80 %")
        self.assertEqual(cells["hidden behind all processes' backwards"], "rank 0: 75 %, rank 1: 80 %")
        self.assertIn("reduction_hidden, at the end\t0.15", self.text("#figures"))
        self.assertIn("as sync/hidden and reduction_hidden among a run's figures say", self.text("#timeline"))

    def test_broken_and_half_written_files(self):
        self.show(self.run_folder("run", [{"iteration": 1, "loss": 1}, "no JSON\n", {"iteration": 2, "loss": 2}, '{"iteration": 3, "lo']))
        self.assertEqual(self.drawn("loss"), [1, 2])
        self.assertIn("line 2 is no JSON", self.text("#runs"))
        self.assertIn("half written", self.text("#files"))
        for section in ("#timeline", "#parameters", "#records"):
            self.assertIn("not recorded", self.text(section).lower())

    def test_no_text_of_a_run_becomes_a_program(self):
        evil = "</script><img src=x onerror=\"window.hit=1\"><script>window.hit=1</script>"
        record = {"outcome": evil, "options": {evil: evil}, "messages": [{"level": "error", "text": evil}], "parameters": [{"name": evil, "dtype": evil, "shape": evil}]}
        folder = self.run_folder("run", [{"iteration": 1, evil: 1}, {"iteration": 2, evil: 2}, {evil: 3}], trace=True, record=record)
        (folder / "trace.json").write_text(report_files.trace_text().replace('"final: w"', json.dumps("final: " + evil)).replace('"w"', json.dumps(evil)).replace("cpu:0", json.dumps(evil)[1:-1]))
        self.show(folder)
        time.sleep(0.3)
        self.assertEqual(self.browser.run("return [window.hit === undefined, document.querySelectorAll('img').length];"), [True, 0])
        self.assertIn(evil, self.text("#charts"))
        self.assertIn(evil, self.text("#parameters"))

    def test_nothing_is_fetched(self):
        self.show(self.run_folder("run", [{"iteration": 1, "loss": 1}]))
        self.assertEqual(self.browser.run("return performance.getEntriesByType('resource').map((each) => each.name);"), [])


class Live(InBrowser):
    def test_a_run_that_goes_on(self):
        folder = self.run_folder("run", [{"iteration": i, "loss": 1.0} for i in range(20)], record={"parameters": [{"name": "w"}]})
        server = subprocess.Popen([sys.executable, PROGRAM, "--live", folder], stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.browser.open(server.stdout.readline().split()[0])
        self.wait_for_charts()
        self.browser.run(f"{CHART.format('loss')}.choose([5, 15]);")
        with open(folder / "log.jsonl", "a") as more:
            more.write('{"iteration":20,"loss":7.5}\n{"iteration":21,"loss":8')
        self.browser.wait(f"{CHART.format('loss')}.legend.innerText.includes('7.5')")
        self.assertEqual(self.browser.run(f"return {CHART.format('loss')}.window;"), [5, 15])  # stays where a user looks
        plot = self.chart("loss")
        self.browser.hold(plot, (-60, 0), (20, 0))
        self.browser.run("document.querySelector('#parameters input').focus({preventScroll: true});")
        with open(folder / "log.jsonl", "a") as more:
            more.write('.5}\n')
        self.browser.wait("page.data.runs[0].series[0].count === 22")
        self.browser.hold(plot, (60, 0), (100, 0), ends=True)  # what is begun goes on while values come
        self.browser.wait(f"{CHART.format('loss')}.window[0] > 6 && {CHART.format('loss')}.legend.innerText.includes('8.5')")
        self.assertTrue(self.browser.run("return document.activeElement === document.querySelector('#parameters input');"))
        self.browser.point(plot, (20, 0))
        self.browser.wait(f"{CHART.format('loss')}.cursorHead.innerText.startsWith('at iteration')")
        with open(folder / "log.jsonl", "a") as more:
            more.write('{"iteration":22,"loss":9.5}\n')
        self.browser.wait(f"{CHART.format('loss')}.legend.innerText.includes('9.5')")
        self.assertIn("at iteration", self.legend("loss"))
        with open(folder / "log.jsonl", "a") as more:
            more.write('{"iteration":22,"accuracy":1}\n')
        self.browser.wait("page.charts.size === 2")
        server.terminate()
        self.browser.wait("document.querySelector('#live').innerText === 'no longer served'")
        self.browser.open("about:blank")
        self.assertTrue(all("ERR_CONNECTION" in error for error in self.browser.errors()))


class Pictures(unittest.TestCase):
    def test_the_documents_pictures_are_of_the_size_of_a_window_and_show_something(self):
        with tempfile.TemporaryDirectory() as kept:
            folder = pathlib.Path(kept)
            for name, rate in (("first", 1.0), ("second", 0.5)):
                (folder / name).mkdir()
                (folder / name / "log.jsonl").write_text("".join(json.dumps({"iteration": i, "loss": math.exp(-rate * i), "lr": rate}) + "\n" for i in range(20)))
                (folder / name / "trace.json").write_text(report_files.trace_text())
            pictures.make_pictures(folder, folder / "first", folder / "second")
            shown = set(re.findall(r"pictures/([\w-]+\.png)", "".join((ROOT / document).read_text() for document in ("docs/reports.md", "README.md"))))
            self.assertEqual({path.name for path in folder.glob("*.png")}, shown)
            for name in shown:
                with self.subTest(name):
                    content = (folder / name).read_bytes()
                    self.assertEqual(content[:8], b"\x89PNG\r\n\x1a\n")
                    width, height = struct.unpack(">II", content[16:24])
                    self.assertTrue(1100 <= width <= 1300 and 300 <= height <= 1100, (width, height))
                    self.assertGreater(len(content), 10000)
            self.assertEqual(len({(folder / name).read_bytes() for name in shown}), len(shown))


if __name__ == "__main__":
    if absent := webdriver.missing():
        print(f"browser_test: there is no {' and no '.join(absent)} (Debian: chromium, chromium-driver)", file=sys.stderr)
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(0)
    unittest.main()
