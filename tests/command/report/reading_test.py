#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `tutti report` reads of whole, broken, growing and strange files, and what a page holds of it."""

import array
import json
import math
import unittest
import unittest.mock

from report_files import InFolder, older_trace_text, trace_of_two_processes, trace_text, unpacked

import chart_groups  # of the program, whose folder report_files names
import metrics_file
import series_data
import trace_file


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

    def test_marks_and_spaces_before_a_line_do_not_matter(self):
        for text in ('\ufeff{"step":1,"a":1}\n{"step":2,"a":2}\n', ' {"step":1,"a":1}\r\n\t{"step":2,"a":2}\r\n', '\ufeff{"step":1,"a":1}\n {"step":2,"a":2}'):
            file = self.read(text)
            self.assertEqual((self.values(file, "a", "step"), file.troubles), ([(1, 1), (2, 2)], []))

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

    def test_bytes_are_told_as_they_are_read(self):
        self.path.write_text('{"iteration":1,"loss":2}\n' * 10)
        told = []
        with unittest.mock.patch.object(metrics_file, "BLOCK", 100):
            metrics_file.MetricsFile(self.path).read(told.append)
        self.assertEqual(told, [100, 100, 50])

    def test_lists_texts_and_many_names(self):
        names = metrics_file.MOST_NAMES + 7
        file = self.read('{"step":1,"t":"word","l":[1]}\n{"step":2,"l":{}}\n' + "".join(f'{{"step":1,"n{i}":1}}\n' for i in range(names)))
        self.assertEqual((file.texts, file.left_out), ({"t": "word"}, {"l": 2}))
        self.assertEqual(len(file.names_left_out), names + 2 - metrics_file.MOST_NAMES)


class Values(unittest.TestCase):
    def test_arrays_come_back_bit_by_bit_and_once(self):
        arrays = series_data.Arrays()
        for values in ([1.0, 2.0, 3.0, 10.0, -5.0], [0.1, 1e-300, -1e300, math.inf], [], [2.0**53, 0.5], [1.0, -0.0, 2.0]):
            place = arrays.place(array.array("d", values))
            self.assertEqual(array.array("d", unpacked(arrays.packed[place])).tobytes(), array.array("d", values).tobytes())
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

    def test_nulls_of_a_resumed_run_are_told_from_NaN(self):
        series = metrics_file.Series("a", "step")
        for x, y in ((1, 1), (2, None), (3, None), (2, math.nan), (3, 3), (4, None)):
            series.add(float(x), y)
        described = series_data.describe(series, series_data.Arrays(), 6)
        self.assertEqual((described["count"], described["nulls"], described["nan"]), (4, 1, 2))

    def test_charts_have_what_belongs_together(self):
        series = [{"name": name, "axis": "iteration"} for name in ("total_loss", "lr", "validation_loss", "memory/cpu:0/peak", "evaluation/accuracy",
                                                                   "throughput", "memory", "accuracy", "sync/skew", "loss")]
        charts = chart_groups.group([{"series": series}])
        self.assertEqual([(chart["section"], chart["title"], len(chart["members"])) for chart in charts],
                         [("Loss and metrics", "loss", 3), ("Loss and metrics", "accuracy", 2), ("Learning rate", "lr", 1), ("Throughput", "throughput", 1),
                          ("Memory", "memory", 2), ("Synchronisation", "sync/skew", 1)])
        self.assertEqual(sorted(member["kind"] for member in charts[0]["members"]), ["", "training", "validation"])


class Traces(unittest.TestCase):
    def test_steps_buckets_and_readiness(self):
        trace = trace_file.read_trace(trace_text())
        self.assertEqual([device["name"] for device in trace["devices"]], ["cpu:0", "cpu:1"])
        first, second = trace["steps"]
        self.assertEqual(first["devices"], [[0, 0.0, 10.0, 15.0, None, -4.0], [1, 1.0, 11.0, 15.0, None, -3.0]])
        self.assertEqual([row[4:] for row in second["devices"]], [[15.0, 96.0], [15.0, 97.0]])
        self.assertEqual([bucket[:3] for bucket in first["buckets"]], [[0, 8.5, 12.5]])
        self.assertEqual([trace["names"][name] for name in first["buckets"][0][3]], ["w", "b"])
        self.assertEqual(len(first["ready"]), 4)
        self.assertEqual(trace_file.parameters_of(trace)["b"], {"order": 2, "ready": 7, "reduction": 4, "together": 2})

    def test_a_trace_without_forward_reads_as_before(self):
        trace, older = trace_file.read_trace(trace_text()), trace_file.read_trace(older_trace_text())
        self.assertEqual({row[5] for step in older["steps"] for row in step["devices"]}, {None})
        for step in (*trace["steps"], *older["steps"]):
            step["devices"] = [row[:5] for row in step["devices"]]
        self.assertEqual(trace, older)

    def test_parameters_may_be_called_as_spans_are(self):
        trace = trace_file.read_trace(trace_text().replace('"w"', '"forward"').replace('"b"', '"backward"'))
        self.assertEqual(len(trace["devices"]), 2)
        self.assertEqual([trace["names"][name] for name in trace["steps"][0]["buckets"][0][3]], ["forward", "backward"])

    def test_what_is_hidden_is_told_of_each_process_and_of_all(self):
        self.assertEqual(trace_file.read_trace(trace_text())["hidden"], [{"process": "", "own": 2.5 / 4, "all": 2.5 / 4}])
        self.assertEqual(trace_file.read_trace(trace_of_two_processes())["hidden"],
                         [{"process": "rank 0", "own": 3 / 20, "all": 15 / 20}, {"process": "rank 1", "own": 8 / 10, "all": 8 / 10}])

    def test_a_trace_that_is_cut_gives_what_it_has(self):
        text = trace_text()
        trace = trace_file.read_trace(text[:text.index('"generation": 2') + 400])
        self.assertEqual((len(trace["steps"]), trace["lost"]), (2, 1))

    def test_what_has_no_steps_is_told(self):
        for text, reason in (("", "no JSON"), ("{}", "no list"), ('{"traceEvents":[{"name":"matmul","ph":"X","ts":1,"dur":2,"pid":1,"tid":0,"args":{}}]}', "no steps"), ("[" * 100000, "no JSON")):
            with self.assertRaisesRegex(trace_file.TraceError, reason):
                trace_file.read_trace(text)

    def test_strange_events_are_passed_over(self):
        strange = [{"ph": "X", "ts": "a", "dur": None, "args": {"generation": 1}}, {"ph": "M", "args": []}, {"ph": "i", "name": "final: w", "ts": float("inf"), "pid": [1], "tid": 0}, 7,
                   {"ph": "i", "name": "final: w", "ts": 1, "pid": [1], "tid": 0}, {"ph": "M", "name": "thread_name", "pid": {}, "tid": 0, "args": {"name": "x"}},
                   {"ph": "X", "name": "backward", "pid": 1, "tid": 0, "ts": 10**400, "dur": 0.5, "args": {"generation": 1}}]
        content = json.loads(trace_text())
        content["traceEvents"] += strange
        lines = "{\n" + "\n".join(map(json.dumps, content["traceEvents"]))
        for text in (json.dumps(content), lines):
            self.assertEqual(len(trace_file.read_trace(text)["steps"]), 2)


if __name__ == "__main__":
    unittest.main()
