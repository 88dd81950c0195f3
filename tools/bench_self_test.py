#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tutti bench` and ./dev bench on programs that only say what Google Benchmark's would, and its comparisons on files and on
samples whose p is known."""

import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent
BENCH_FOLDER = TOOLS.parent / "command" / "bench"
sys.path.insert(0, str(BENCH_FOLDER))

import compare_benches  # noqa: E402
import run_benches  # noqa: E402
from pseudo_terminal import run_on_terminal  # noqa: E402

BENCH = """#!/usr/bin/env python3
import json, sys, time, re
options = dict(argument.lstrip("-").partition("=")[::2] for argument in sys.argv[1:])
names = [name for name in {names} if re.search(options.get("benchmark_filter", "."), name)]
if "benchmark_list_tests" in options:
    print(*names, sep="\\n")
    sys.exit()
{before}
benchmarks = [{fields} | dict(name=name, run_name=name, run_type="iteration", iterations=10, real_time=2.0, cpu_time=2.0,
              time_unit="us") for name in names for _ in range(int(options.get("benchmark_repetitions", 1)))]
said = json.dumps(dict(context=dict(num_cpus=2, load_avg=[0.5]), benchmarks=benchmarks))
if "benchmark_out" in options:
    open(options["benchmark_out"], "w").write(said)
else:
    print(said)
"""


class Runs(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.kept.name)
        self.output = self.folder / "runs"
        limits = {"FLOP/s": 4e9, "copies": {str(2**15): 80e9, str(2**28): 10e9}}
        (self.folder / "machine_limits").write_text(f"#!/bin/sh\necho '{json.dumps(limits | dict(tutti='0.1.0'))}'\n")
        (self.folder / "machine_limits").chmod(0o755)
        self.program("array_bench", ["add/16", "matmul/8"], {"FLOP/s": 1e9, "bytes_per_second": 5e9})
        self.program("tensor_bench", ["forward/add"], {})

    def tearDown(self):
        self.kept.cleanup()

    def program(self, name, benches, fields, before=""):
        path = self.folder / name
        path.write_text(BENCH.format(names=benches, fields=fields, before=before))
        path.chmod(0o755)

    def command(self, *arguments):
        return [sys.executable, BENCH_FOLDER / "tutti_bench.py", "--programs", self.folder, "--output", self.output, *arguments]

    def run_benches(self, *arguments):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True)

    def files(self):
        return sorted(self.output.glob("*")) if self.output.exists() else []

    def test_lists_without_running(self):
        done = self.run_benches("--list")
        self.assertEqual((done.returncode, done.stdout), (0, "add/16\nmatmul/8\nforward/add\n"))
        self.assertEqual(self.run_benches("--list", "^forward").stdout, "forward/add\n")
        self.assertEqual(self.files(), [])

    def test_one_file_for_each_run(self):
        for _ in range(2):
            done = self.run_benches("--benchmark_repetitions=3")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([path.suffix for path in self.files()], [".json", ".json"])
        content = json.loads(self.files()[0].read_text())
        self.assertEqual([bench["executable"] for bench in content["benchmarks"]], ["array_bench"] * 6 + ["tensor_bench"] * 3)
        context = content["context"]
        self.assertTrue(context["complete"])
        self.assertEqual(context["num_cpus"], 2)  # Google Benchmark's own
        self.assertEqual(context["options"], ["--benchmark_repetitions=3"])
        for key in ("commit", "processor", "cores", "time"):
            self.assertTrue(context[key], key)
        self.assertEqual(context["tutti"], "0.1.0")
        self.assertEqual(context["limits"], {"FLOP/s": 4e9, "copies": {str(2**15): 80e9, str(2**28): 10e9}})

    def test_two_runs_of_one_second_get_two_files(self):
        paths = {run_benches.make_file(self.output, "moment", {"run": i}) for i in range(3)}
        self.assertEqual(sorted(path.name for path in paths), ["moment-2.json", "moment-3.json", "moment.json"])
        self.assertEqual(self.files(), sorted(paths))

    def test_figures_stand_beside_the_limits(self):
        self.assertIn("add/16       1.00      25 %  5.00       6 %", self.run_benches().stdout)
        self.assertEqual(run_benches.copy_limit({"copies": {"32768": 80.0, "268435456": 10.0}}, 2**27), 10.0)

    def test_an_interrupt_keeps_what_had_finished(self):
        self.program("tensor_bench", ["forward/add"], {}, f"open({str(self.folder / 'runs_now')!r}, 'w'); time.sleep(60)")
        running = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        deadline = time.monotonic() + 60
        while not (self.folder / "runs_now").exists() and time.monotonic() < deadline:
            time.sleep(0.02)

        os.killpg(running.pid, signal.SIGINT)
        _, complaint = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130)
        self.assertIn("interrupted", complaint)
        self.assertEqual(len(self.files()), 1)
        content = json.loads(self.files()[0].read_text())
        self.assertFalse(content["context"]["complete"])
        self.assertEqual(len(content["benchmarks"]), 2)

    def test_a_terminal_sees_how_many_are_done(self):
        self.program("array_bench", ["add/16", "matmul/8", "sum/8"], {}, before="""
print("Benchmark   Time\\nadd/16   2.00 us\\nadd/16   2.00 us\\nmatmul/8_median   2.00 us", flush=True)
time.sleep(2.2)""")
        status, said = run_on_terminal(self.command(), columns=100)
        self.assertEqual(status, 0)
        self.assertRegex(said, r"matmul/8_median   2.00 us\r\n\r\[2/4\] [12] s, [\d.]+ benches/(s|min), about \d+ s left")
        self.assertNotIn("\x1b", said)
        done = self.run_benches()
        self.assertNotIn("benches/", done.stdout + done.stderr)
        self.assertNotIn("\r", done.stdout + done.stderr)

    def test_a_bench_that_fails_is_told_and_the_others_run(self):
        self.program("array_bench", ["add/16"], {}, "sys.exit(3)")
        done = self.run_benches()
        self.assertEqual(done.returncode, 1)
        self.assertIn("array_bench ended with status 3", done.stderr)
        self.assertFalse(json.loads(self.files()[0].read_text())["context"]["complete"])

    def test_a_program_that_cannot_start_is_an_error(self):
        (self.folder / "tensor_bench").write_text("#!/bin/sh\necho 'a library is missing' >&2\nexit 127\n")
        done = self.run_benches()
        self.assertEqual(done.returncode, 1)
        self.assertIn("tensor_bench ended with status 127: a library is missing", done.stderr)
        self.assertEqual(self.files(), [])

    def test_nothing_matches(self):
        done = self.run_benches("abacus")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no bench matches 'abacus'", done.stderr)
        self.assertEqual(self.files(), [])


class Test(unittest.TestCase):
    def test_p_of_known_samples(self):
        p = compare_benches.mann_whitney_p
        self.assertAlmostEqual(p([1, 2, 3], [4, 5, 6]), 0.1)
        self.assertAlmostEqual(p([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), 2 / 252)
        self.assertAlmostEqual(p([1, 3, 5, 7], [2, 4, 6, 8]), 48 / 70)
        self.assertEqual(p([1, 1, 1], [1, 1, 1]), 1.0)

    def test_p_is_the_share_of_all_choices(self):
        old, new = [3, 1, 4, 1], [5, 9, 2, 6, 5]
        pooled = [*old, *new]

        def statistic(chosen):  # U - n m / 2, ties half
            rest = [pooled[i] for i in range(9) if i not in chosen]
            pairs = [(pooled[i] > other) + (pooled[i] == other) / 2 for i in chosen for other in rest]
            return abs(sum(pairs) - len(chosen) * len(rest) / 2)

        choices = list(itertools.combinations(range(9), 4))
        share = sum(statistic(chosen) >= statistic(range(4)) for chosen in choices) / len(choices)
        self.assertAlmostEqual(compare_benches.mann_whitney_p(old, new), share)

    def test_the_normal_distribution_is_close(self):
        old, new = [i * 1.0 for i in range(18)], [i + 4.5 for i in range(18)]
        ranks = compare_benches.doubled_ranks([*old, *new])
        exact, normal = (f(ranks, 18, sum(ranks[:18])) for f in (compare_benches.exact_p, compare_benches.normal_p))
        self.assertAlmostEqual(exact, normal, delta=0.003)
        self.assertLess(compare_benches.mann_whitney_p(list(range(60)), list(range(100, 160))), 1e-9)


class Comparison(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.kept.name)

    def tearDown(self):
        self.kept.cleanup()

    def file(self, name, times, processor="A", **counters):
        entries = [{"name": bench, "run_name": bench, "run_type": "iteration", "real_time": value, "time_unit": "us",
                    "iterations": 1, **counters} for bench, values in times.items() for value in values]
        entries += [{"name": "add_mean", "run_name": "add", "run_type": "aggregate", "real_time": 0, "time_unit": "us"}]
        path = self.folder / name
        path.write_text(json.dumps({"context": {"processor": processor, "cores": 2, "commit": "0123abcdef", "time": "now"},
                                    "benchmarks": entries}))
        return path

    def compare(self, *arguments):
        return subprocess.run([sys.executable, BENCH_FOLDER / "tutti_bench.py", "compare", *arguments], capture_output=True, text=True)

    def test_tells_differences_from_chance(self):
        old = self.file("old", {"add": [10, 11, 12, 13, 14], "exp": [10, 11, 12, 13, 14], "gone": [1]})
        new = self.file("new", {"add": [5, 5.5, 6, 6.5, 7], "exp": [12, 13, 11, 10, 14.5]})
        done = self.compare(old, new)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
        self.assertEqual(lines["add"][2:], ["12", "us", "6", "us", "0.500", "0.0079", "differs"])
        self.assertNotIn("differs", lines["exp"])
        self.assertIn("only in OLD: gone", done.stdout)
        self.assertIn("1 of 2 differ", done.stdout)
        self.assertIn("0123abc", done.stdout)
        self.assertNotIn("different machines", done.stdout)

    def test_says_what_repetitions_cannot_tell(self):
        done = self.compare(self.file("old", {"add": [1, 2, 3]}), self.file("new", {"add": [7, 8, 9]}, processor="B"))
        self.assertEqual(done.returncode, 0)
        self.assertIn("too few repetitions: 3 and 3", done.stdout)
        self.assertNotIn("differs", done.stdout)
        self.assertIn("different machines", done.stdout)

    def test_compares_counters_that_are_no_times_in_disguise(self):
        old = self.file("old", {"add": [1] * 4}, step_us=3.0, messages=7, element=1.0)
        new = self.file("new", {"add": [1] * 4}, step_us=6.0, messages=7, element=2.0)
        quantities = [line.split()[1] for line in self.compare(old, new).stdout.splitlines() if line.startswith("add ")]
        self.assertEqual(quantities, ["step_us"])

    def test_refuses_what_cannot_be_compared(self):
        good = self.file("good", {"add": [1]})
        (self.folder / "broken").write_text("{")
        (self.folder / "odd").write_text(json.dumps({"context": {}, "benchmarks": [1]}))
        for arguments, problem in (([good], "two files"), ([good, "abacus"], "no file abacus"),
                                   ([good, self.folder / "broken"], "broken is not a file of benches"),
                                   ([good, self.folder / "odd"], "odd is not a file of benches"),
                                   ([good, self.file("still", {"add": [0]})], "a time that is none"),
                                   ([good, self.file("other", {"exp": [1]})], "no figure in common")):
            done = self.compare(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(problem, done.stderr)

    def test_a_gate_tells_what_is_slower_and_by_more_than_chance(self):
        old = self.file("old", {"add": [10, 11, 12, 13, 14], "exp": [10, 11, 12, 13, 14], "gone": [1] * 4})
        new = self.file("new", {"add": [11, 12, 13, 14, 15], "exp": [20, 21, 22, 23, 24], "gone": [1] * 4})
        done = self.compare("--gate", "5", old, new)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "gate of 5 %: exp: slower by 83.3 % in its time (p = 0.0079)\n")
        for arguments in (["--gate=90", old, new], ["--gate", "0", old, old]):
            done = self.compare(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_gate_goes_by_ratios_where_there_was_a_baseline(self):
        old = self.file("old", {"add": [1, 2, 3, 4]}, ratio=0.5, baseline_seconds=1e-6)
        same = self.file("same", {"add": [11, 12, 13, 14]}, ratio=0.5, baseline_seconds=1e-6)
        worse = self.file("worse", {"add": [1, 2, 3, 4]}, ratio=0.6, baseline_seconds=1e-6)
        self.assertEqual(self.compare("--gate", "5", old, same).returncode, 0)
        done = self.compare("--gate", "5", old, worse)
        self.assertEqual(done.returncode, 1)
        self.assertIn("add: slower by 20.0 % in its ratio", done.stderr)
        alone = self.file("alone", {"add": [1, 2, 3, 4]})
        self.assertEqual(self.compare("--gate", "5", old, alone).stderr, "gate of 5 %: add: NEW has no baseline\n")

    def test_a_gate_takes_no_counter_for_a_ratio(self):
        old, slow = (self.file(name, {"add": times}, ratio=3.0) for name, times in (("old", [1, 2, 3, 4]), ("slow", [11, 12, 13, 14])))
        self.assertIn("in its time", self.compare("--gate", "5", old, slow).stderr)

    def test_a_gate_refuses_runs_that_did_not_end_and_other_clocks(self):
        runs = {}
        for name, context in (("half", {"complete": False}), ("wall", {"ratio_of": "time"}), ("processor", {"ratio_of": "processor time"})):
            runs[name] = self.file(name, {"add": [1, 2, 3, 4]})
            content = json.loads(runs[name].read_text())
            content["context"] |= context
            runs[name].write_text(json.dumps(content))
        for old, new, problem in (("half", "wall", "did not end"), ("wall", "processor", "one clock")):
            done = self.compare("--gate", "5", runs[old], runs[new])
            self.assertEqual(done.returncode, 2)
            self.assertIn(problem, done.stderr)

    def test_a_gate_counts_allocations_and_misses_what_is_not_there(self):
        old = self.file("old", {"add": [1] * 4, "exp": [1] * 4}, heap_allocations=2)
        new = self.file("new", {"add": [1] * 4}, heap_allocations=3)
        done = self.compare("--gate", "5", old, new)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.splitlines(), ["gate of 5 %: add: heap_allocations 2, now 3", "gate of 5 %: exp: NEW has it not"])
        uncounted = self.file("uncounted", {"add": [1] * 4, "exp": [1] * 4})
        self.assertIn("add: NEW has no heap_allocations", self.compare("--gate", "5", old, uncounted).stderr)

    def test_a_gate_needs_repetitions_and_a_percentage(self):
        few = self.file("few", {"add": [1, 2, 3]})
        for arguments, problem in ((["--gate", "5", few, few], "add has too few repetitions for a gate: 3 and 3"),
                                   (["--gate", "little", few, few], "not 'little'"), (["--gate", "-1", few, few], "not '-1'"),
                                   (["--gat", few, few], "unknown option '--gat'")):
            done = self.compare(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(problem, done.stderr)

    def history(self, *arguments):
        return subprocess.run([sys.executable, BENCH_FOLDER / "tutti_bench.py", "history", *arguments], capture_output=True, text=True)

    def test_a_history_shows_runs_by_their_time(self):
        for name, moment, times in (("b.json", "2026-01-02T00:00:00", [2, 4, 3]), ("a.json", "2026-01-03T00:00:00", [6, 6, 6])):
            path = self.file(name, {"add": times, "exp": [1]}, ratio=0.5, baseline_seconds=1e-6)
            content = json.loads(path.read_text())
            content["context"] |= {"time": moment, "label": f"of {name}"}
            path.write_text(json.dumps(content))
        done = self.history(self.folder, "--filter", "add")
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout.splitlines(), ["add", "  2026-01-02T00:00:00  of b.json       3 us          0.500 of its baseline",
                                                    "  2026-01-03T00:00:00  of a.json       6 us   2.000  0.500 of its baseline"])
        (self.folder / "other.json").write_text("{}")
        self.assertIn("left out: ", self.history(self.folder).stderr)
        for arguments, problem in (([], "files or folders are needed"), ([self.folder / "none"], "there is no file"),
                                   ([self.folder, "--filter", "abacus"], "no such bench"), ([self.folder, "--filter", "("], "no regular")):
            done = self.history(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(problem, done.stderr)


class Command(unittest.TestCase):
    """./dev bench, where it answers before it installs or builds anything."""

    def dev_bench(self, *arguments):
        return subprocess.run([TOOLS.parent / "dev", "bench", *arguments], capture_output=True, text=True, timeout=60)

    def test_helps(self):
        for option in ("--help", "-h"):
            done = self.dev_bench("matmul", option)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for word in ("--list", "OLD NEW", "--benchmark_", "--peers"):
                self.assertIn(word, done.stdout)
        self.assertIn("Mann-Whitney", self.dev_bench("compare", "--help").stdout)

    def test_refuses_what_it_does_not_know(self):
        for arguments, problem in ((["--lst"], "unknown option '--lst'"), (["a", "b"], "one filter at most"),
                                   (["a", "--benchmark_filter=b"], "one filter at most"),
                                   (["--benchmark_out=x"], "runs/bench/")):
            done = self.dev_bench(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(problem, done.stderr)


if __name__ == "__main__":
    unittest.main()
