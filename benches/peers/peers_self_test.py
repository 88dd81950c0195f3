#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How ./dev bench --peers runs programs and compares them, on small scripts in their place."""

import contextlib
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import comparisons  # noqa: E402
import measure  # noqa: E402
from programs import Program, ProgramError, output_of  # noqa: E402


PYTHON = [sys.executable, "-S", "-E"]  # starts sooner
ENVIRONMENT = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}


def prints(model, ms):
    return f"""print('{{"model": "{model}", "ms": {ms}}}')"""


def variant(side, name, scripts, ranks=1, seconds=60):
    """One program for each {model: script}."""
    return measure.Variant(side, name, [Program([*PYTHON, "-c", script], [model], ranks, seconds=seconds)
                                        for model, script in scripts.items()])


def steady(side, name, **times):
    return variant(side, name, {model: prints(model, ms) for model, ms in times.items()})


class Scratch(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def failing_in(self, rounds, script):
        """The script, but for some rounds, in which it fails."""
        count = self.folder / f"count{len(list(self.folder.iterdir()))}"
        count.write_text("0")
        return (f"import pathlib, sys; count = pathlib.Path({str(count)!r}); now = int(count.read_text()) + 1; "
                f"count.write_text(str(now)); now in {rounds} and sys.exit('an accident'); {script}")


class Tables(Scratch):
    def compared(self, ours, peers, rounds=2, wanted=None):
        """The table of ours and of the peers named Theirs, and what was said on stderr."""
        comparison = measure.Comparison(
            title="A title", unit="ms", rows=["a", "b"], ours=[ours], peers=peers, note="A note.",
            parse=measure.parse_lines("model", "ms"), wanted={"Theirs": wanted or {}})
        comparison.narrow(re.compile(""))
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            for _ in measure.measure(comparison, rounds):
                pass
        return measure.markdown(comparison, measure.compare(comparison), rounds), errors.getvalue()

    def test_the_best_way_of_a_peer_counts_for_each_row(self):
        quick = variant("Theirs", "quick", {"a": prints("a", 3), "b": "raise SystemExit('no b')"})
        table, errors = self.compared(steady("Ours", "", a=2, b=4), [quick, steady("Theirs", "steady", a=4, b=2)],
                                      wanted={"a": 1.25, "b": 1})
        self.assertIn("| a | Ours | 2 | Theirs: quick | 3 | **1.50** (1.50–1.50) | 1.25, met |", table)
        self.assertIn("| b | Ours | 4 | Theirs: steady | 2 | **0.50** (0.50–0.50) | 1, **missed** |", table)
        self.assertIn("Theirs, quick: ", errors)
        self.assertIn("ended with status 1: ...no b", errors)

    def test_the_best_stays_the_best_when_its_last_round_fails(self):
        best = variant("Theirs", "best", {"a": self.failing_in([3], prints("a", 2))})
        table, _ = self.compared(steady("Ours", "", a=4), [best, steady("Theirs", "worse", a=2.9)], rounds=3)
        self.assertIn("| Theirs: best | 2 | **0.50** (0.50–0.50, 2 of 3 rounds) |", table)

    def test_one_lucky_round_is_no_median(self):
        lucky = variant("Theirs", "lucky", {"a": self.failing_in([2, 3], prints("a", 2.5))})
        table, _ = self.compared(steady("Ours", "", a=4), [lucky, steady("Theirs", "steady", a=3)], rounds=3)
        self.assertIn("| Theirs: steady | 3 | **0.75** (0.75–0.75) |", table)

    def test_figures_of_ours_from_few_rounds_are_told(self):
        ours = variant("Ours", "", {"a": self.failing_in([2, 3, 4], prints("a", 1))})
        table, _ = self.compared(ours, [steady("Theirs", "", a=2)], rounds=4)
        self.assertIn("**2.00** (2.00–2.00, 1 of 4 rounds)", table)

    def test_who_fails_one_program_by_accident_stays(self):
        best = variant("Theirs", "best at a", {"a": self.failing_in([1], prints("a", 1)), "b": prints("b", 9)})
        table, _ = self.compared(steady("Ours", "", a=4, b=4), [best, steady("Theirs", "other", a=3, b=3)], rounds=3)
        self.assertIn("| a | Ours | 4 | Theirs: best at a | 1 | **0.25** (0.25–0.25, 2 of 3 rounds) |", table)

    def test_who_is_far_behind_drops_out(self):
        far = steady("Theirs", "far behind", a=10)
        table, _ = self.compared(steady("Ours", "", a=4), [far, steady("Theirs", "other", a=3)], rounds=2)
        self.assertEqual(far.rounds, [{"a": 10}, {}])
        self.assertIn("Theirs: other", table)

    def test_what_is_compared_is_run_in_turn_and_every_other_round_backwards(self):
        ours, eager = steady("Ours", "", a=1, b=1), steady("Theirs", "eager", a=1, b=1)
        some = steady("Theirs", "some", b=1)
        comparison = measure.Comparison("", "ms", ["a", "b"], [ours], [eager, some], parse=None, note="")
        orders = [[(each.name or each.side, program.measures[0]) for each, program in measure.order_of(comparison, turn)]
                  for turn in (0, 1)]
        self.assertEqual(orders[0], [("Ours", "a"), ("eager", "a"), ("Ours", "b"), ("eager", "b"), ("some", "b")])
        self.assertEqual(orders[1], orders[0][::-1])

    def test_says_how_many_programs_have_run(self):
        ours = variant("ours", "", {"a": prints("a", 1)})
        peers = [steady("peer", "fast", a=2), steady("peer", "slow", a=20)]
        comparison = measure.Comparison("title", "ms", ["a"], [ours], peers, measure.parse_lines("model", "ms"), "")
        course = measure.Course([comparison], 3)
        course.line, course.began = measure.ProgressLine(io.StringIO(), 0.0), course.began - 60
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(len(list(measure.measure(comparison, 3, course))), 3)
        self.assertIn("title: round 3 of 3\n", said.getvalue())
        lines = course.line.stream.getvalue().splitlines()
        self.assertRegex(lines[0], r"^\[0/9\] 1 min 0 s; running ours$")
        self.assertRegex(lines[2], r"^\[2/9\] 1 min 0 s, 2 programs/min, about 4 min left; running peer, slow$")
        self.assertRegex(lines[-1], r"^\[6/7\] .*; running peer, fast$")  # the slow one dropped out

    def test_odd_output_fails_its_program_alone(self):
        for script, told in (("print('a warning'); print(); " + prints("a", 3), None),
                             (prints("a", "NaN"), "no time of a: nan"), (prints("a", "Infinity"), "no time of a: inf"),
                             (prints("a", 0), "no time of a: 0"), (prints("a", '"3"'), "no time of a: 3"),
                             ("print('{it is}')", "its output is not understood: JSONDecodeError"),
                             ("print('{}')", "its output is not understood: KeyError"), ("", "no time of a: nothing")):
            table, errors = self.compared(steady("Ours", "", a=2), [variant("Theirs", "", {"a": script})], rounds=1)
            self.assertIn("**no figure**" if told else "**1.50**", table, script)
            self.assertIn(told or "round 1", errors)

    def test_a_program_that_is_not_there_fails_alone(self):
        missing = measure.Variant("Theirs", "", [Program(["/no/such/program"], ["a"])])
        table, errors = self.compared(steady("Ours", "", a=2), [missing], rounds=1)
        self.assertIn("**no figure**", table)
        self.assertIn("No such file or directory", errors)

    def test_all_reduce_reads_both_kinds_of_output(self):
        document = json.dumps({"benchmarks": [{"name": "x/bytes:65536/", "us": 2.5}]}, indent=1)
        self.assertEqual(comparisons.parse_all_reduce(f"a warning\n{document}\nthe end\n"), {65536: 2.5})
        self.assertEqual(comparisons.parse_all_reduce('a warning\n{"bytes": 65536, "us": 1.5}\nmpirun ended\n'), {65536: 1.5})


class Ranks(Scratch):
    def output_of(self, script, ranks=2, seconds=60):
        return output_of(Program([*PYTHON, "-c", f"import os, sys, time; rank = os.environ.get('RANK'); {script}"],
                                 [], ranks, seconds=seconds))

    def test_they_are_started_as_a_launcher_does(self):
        said = self.output_of("print([os.environ[name] for name in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK')]); "
                              "assert all(os.environ[name] for name in ('MASTER_ADDR', 'MASTER_PORT', 'TUTTI_SECRET'))")
        self.assertEqual(said, "['0', '2', '0']\n")

    def test_one_that_fails_ends_the_others_at_once_and_says_why(self):
        for ill, other in ("01", "10"):
            began = time.monotonic()
            with self.assertRaisesRegex(ProgramError, f"rank {ill} ended with status 1: ...it is ill"):
                self.output_of(f"rank == '{ill}' and sys.exit('it is ill'); sys.stderr.write('waiting'); time.sleep(60)")
            self.assertLess(time.monotonic() - began, 20)

    def test_one_that_says_much_does_not_block(self):
        self.assertEqual(self.output_of("sys.stderr.write('x' * 300000); print('y' * 300000)"), "y" * 300000 + "\n")

    def test_time_runs_out(self):
        with self.assertRaisesRegex(ProgramError, "out of time after 0.5 s: ...it hangs"):
            self.output_of("sys.stderr.write('it hangs'); sys.stderr.flush(); time.sleep(60)", seconds=0.5)

    def test_one_that_hears_no_signal_is_killed(self):
        script = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
        with mock.patch("programs.GRACE", 0.2), self.assertRaisesRegex(ProgramError, "out of time"):
            self.output_of(script, ranks=1, seconds=0.5)

    def test_signals_end_everything(self):
        script = ("import os, pathlib, subprocess, sys, time; child = subprocess.Popen(['sleep', '60']); "
                  "pathlib.Path(sys.argv[1], f'{os.getpid()} {child.pid}').touch(); time.sleep(60)")
        running = {}
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGKILL):
            folder = self.folder / number.name
            folder.mkdir()
            program = f"Program({[*PYTHON, '-c', script, str(folder)]}, [], ranks=2)"
            running[number] = subprocess.Popen(
                [sys.executable, "-c", "import signal; from programs import *; "
                 "[signal.signal(number, signal.SIG_DFL) for number in SIGNALS]; "  # some are ignored in the background
                 f"exit_on_signals(); output_of({program})"], cwd=HERE, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
            self.addCleanup(running[number].kill)
        for number, process in running.items():
            folder = self.folder / number.name
            self.wait_until(lambda: len(list(folder.iterdir())) == 2)
            process.send_signal(number)
            ranks, children = zip(*(map(int, path.name.split()) for path in folder.iterdir()))
            if number == signal.SIGKILL:
                self.assertEqual(process.wait(timeout=60), -number)
                self.wait_until(lambda: not any(map(self.runs, ranks)))
                for child in children:  # nobody has ended them
                    os.kill(child, signal.SIGKILL)
            else:
                self.assertEqual(process.wait(timeout=60), 128 + number)
                self.wait_until(lambda: not any(map(self.runs, ranks + children)))

    def wait_until(self, condition):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def runs(self, pid):
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False


class Operations(unittest.TestCase):
    def test_outputs_are_read(self):
        ours = """2026-11-29 a warning
{
  "benchmarks": [{"name": "chain/add", "per_op": 4.0e-07},
                 {"name": "captured_chain/relu/64/iterations:20/real_time", "operation_ns": 50.0}]
}"""
        self.assertEqual(comparisons.parse_operations(ours), {"add": 400.0, "relu": 50.0})
        self.assertEqual(comparisons.parse_operations('{"operation": "add", "ns": 3.5}\n'), {"add": 3.5})


class Command(Scratch):
    def compare(self, *arguments):
        """compare.py on programs that take 2 ms, but for PyTorch, which takes 3."""
        for name, ms in (("model_steps", 2), ("torch", 3)):
            (self.folder / name).write_text(f"""#!/bin/sh
[ "$1" != "${{1%.py}}" ] && shift
echo '{{"model": "'$1'", "processor_ms": {ms}, "clock_ms": {ms}}}'
""")
            (self.folder / name).chmod(0o755)
        script = "import compare, sys; compare.busy_cores = lambda: 0.0; sys.exit(compare.main())"
        return subprocess.run(
            [sys.executable, "-c", script, self.folder, "--torch", self.folder / "torch", "--only", "step", "--threads", "1",
             "--types", "f32", "--rounds", "1", *arguments], capture_output=True, text=True, cwd=HERE,
            env=ENVIRONMENT | {"TUTTI_CALLED_FROM": str(self.folder)})

    def test_only_what_the_peers_measure_that_are_left_has_rows(self):
        done = self.compare("--variants", "channels_last", "--out", "here")
        self.assertEqual(done.returncode, 0, done.stderr)
        for model in comparisons.IMAGES:
            self.assertIn(f"| {model} | Tutti | 2 | PyTorch: channels_last | 3 | **1.50** (1.50–1.50) |", done.stdout)
        self.assertNotIn("no figure", done.stdout)
        self.assertNotIn("mlp", done.stdout)
        self.assertEqual((self.folder / "here/peers.md").read_text() + "\n", done.stdout)
        raw = json.loads((self.folder / "here/peers.json").read_text())["comparisons"][0]["raw"]
        self.assertEqual(raw[0]["rounds"], [dict.fromkeys(comparisons.IMAGES, 2)])

    def test_words_that_mean_nothing_are_refused(self):
        (self.folder / "file").touch()
        for arguments, problem in ((["--variants", "("], "argument --variants: '(' is no regular expression: missing )"),
                                   (["--output", "file"], f"cannot make the folder {self.folder}/file: File exists"),
                                   (["--output", "file/in/it"], "Not a directory"),
                                   (["--models", "mlp", "--variants", "channels_last"], "nothing is left to compare")):
            done = self.compare("--groups", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(problem, done.stderr)


if __name__ == "__main__":
    unittest.main()
