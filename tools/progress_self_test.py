#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What compiling, testing and all else of ./dev that takes its time say while they last: tools/compile_progress.py on a small
build, tools/command_progress.py and tools/stage_progress.py on commands that only sleep, and tools/test_course.py."""

import contextlib
import io
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import compile_progress
import progress_line
import test_course
from pseudo_terminal import run_on_terminal, surroundings

TOOLS = pathlib.Path(__file__).resolve().parent
BUILD = """rule make
  command = {command} && touch $out
  description = Compiling C++ object a/b.a.p/$out.cpp.o
""" + "".join(f"build {name}: make\n" for name in ("one", "two", "three")) + "default one two three\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Compiling(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.kept.name)

    def tearDown(self):
        self.kept.cleanup()

    def command(self, command="true"):
        (self.folder / "build.ninja").write_text(BUILD.format(command=command))
        return [sys.executable, TOOLS / "compile_progress.py", self.folder]

    def compile(self, command="true"):
        return subprocess.run(self.command(command), text=True, capture_output=True)

    def test_says_what_is_to_be_done_and_what_was(self):
        done = self.compile()
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertRegex(done.stderr, rf"^compiling {self.folder}: 3 steps, about \d+ s on \d+ cores, less with what ccache has\n"
                                      rf"compiled {self.folder}: 3 steps in \d+ s\n$")
        self.assertIn("[3/3] Compiling C++ object", (self.folder / "compile.log").read_text())

    def test_says_nothing_when_there_is_nothing_to_do(self):
        self.compile()
        done = self.compile()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_rewrites_one_line_on_a_terminal(self):
        status, said = run_on_terminal(self.command("sleep 1.2"), columns=120)
        self.assertEqual(status, 0)
        self.assertRegex(said, r"\r\[[123]/3\] \d s, [\d.]+ steps/(s|min), about \d+ s left; made (one|two|three)\.cpp")
        self.assertNotIn("\x1b", said)
        self.assertEqual(said.count("\n"), 2)
        status, said = run_on_terminal(self.command("sleep 0.3"), columns=12)
        self.assertEqual(status, 0)
        drawn = [text for line in said.split("\n")[1:-1] for text in line.split("\r")]
        self.assertTrue(drawn)
        self.assertLess(max(map(len, drawn[:-2])), 12)

    def test_the_status_and_the_log_are_ninjas(self):
        done = self.compile("echo what is wrong; false")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("what is wrong", (self.folder / "compile.log").read_text())
        self.assertNotIn("compiled", done.stderr)

    def test_estimates_by_what_a_step_is(self):
        merged = ["Compiling C++ object backend/libx.a.p/meson-generated_x-unity0.cpp.o", "Compiling C++ object tests/a_test.p/meson-generated_.._a_test_12.cpp.o"]
        for steps, seconds in ((merged, [13, 13]), (["Precompiling header ../pch/arrays.h"], [15]), (["Generating 'cuda/libx.a.p/sort.cu.o'."], [10]),
                               (["Compiling C++ object a/b_test.p/b_test.cpp.o"], [5]), (["Linking target tests/a_test", "Generating a_test_1.cpp with a custom command"], [0.4, 0.4])):
            self.assertEqual([compile_progress.seconds_of(step, {}) for step in steps], seconds)
        self.assertEqual(compile_progress.Estimate(2, merged, {}).left(2, 0.0), 13)

    def test_estimates_by_the_last_time(self):
        self.assertEqual(compile_progress.last_times(self.folder), {})
        (self.folder / ".ninja_log").write_text("# ninja log v5\n0\t90000\t1\ta/x.cpp.o\tf\n5\t7005\t1\ta/x.cpp.o\tf\n0\t20\t1\ta/y.cpp.o\tf\nbroken")
        last = compile_progress.last_times(self.folder)
        self.assertEqual(last, {"a/x.cpp.o": 7.0, "a/y.cpp.o": 0.02})
        self.assertEqual([compile_progress.seconds_of(f"Compiling C++ object a/{name}.cpp.o", last) for name in "xyz"], [7, 5, 5])  # y came from ccache

    def test_estimates_from_what_was_seen(self):
        def left(elapsed):
            estimate = compile_progress.Estimate(2, [f"Compiling C++ object {number}.cpp.o" for number in range(100)], {})
            for number in range(50):
                estimate.made(f"Compiling C++ object {number}.cpp.o")
            return [estimate.left(steps, elapsed) for steps in (50, 10, 0)]

        self.assertAlmostEqual(left(125)[0], 125)
        self.assertLess(left(10)[0], left(100)[0])
        self.assertEqual([left(100)[1], left(100)[2]], [left(100)[0] / 5, 0])  # ninja takes fewer than it planned
        self.assertEqual(compile_progress.subject("Compiling C++ object backend/libx.a.p/array.cpp.o"), "array.cpp")


class Line(unittest.TestCase):
    def test_plain_lines_now_and_then(self):
        stream = io.StringIO()
        line = progress_line.ProgressLine(stream, 0.0)
        line.show("first")
        line.seconds_between = 1000.0
        line.show("second")
        line.clear()
        self.assertEqual(stream.getvalue(), "first\n")

    def test_a_shorter_text_leaves_nothing_of_a_longer_one(self):
        with unittest.mock.patch.dict("os.environ", surroundings(), clear=True):
            stream = Terminal()
            line = progress_line.ProgressLine(stream)
            line.show("longer text")
            line.show("short")
            line.clear()
            self.assertEqual(stream.getvalue(), "\rlonger text\rshort      \r     \r")

    def test_a_terminal_that_keeps_what_is_written_gets_plain_lines(self):
        for variables, over in (({"TERM": "dumb"}, False), ({"TERM": None}, False), ({"CI": "true"}, False), ({"CI": "false"}, True),
                                ({"NO_COLOR": "1"}, True)):
            with unittest.mock.patch.dict("os.environ", surroundings(**variables), clear=True):
                self.assertEqual(progress_line.draws_over(Terminal()), over, variables)
        self.assertFalse(progress_line.draws_over(io.StringIO()))

    def test_what_is_done_soon_is_not_shown(self):
        with unittest.mock.patch.dict("os.environ", surroundings(), clear=True):
            stream = Terminal()
            line = progress_line.ProgressLine(stream, quiet=1000.0)
            line.show("first")
            line.clear()
            self.assertEqual(stream.getvalue(), "")

    def test_rates_and_what_is_left(self):
        self.assertEqual(progress_line.time_text(0.4, 60), "0 s, about 60 s left")
        self.assertEqual(progress_line.time_text(10, 20, 32, "steps"), "10 s, 3.2 steps/s, about 20 s left")
        self.assertEqual(progress_line.time_text(60, None, 14, "steps"), "1 min 0 s, 14 steps/min")
        self.assertEqual([progress_line.left_of(0, 4, 10), progress_line.left_of(1, 4, 10), progress_line.left_of(4, 4, 10)], [None, 30, 0])

    def test_durations(self):
        self.assertEqual([progress_line.duration_text(s) for s in (0, 59.4, 125)], ["0 s", "59 s", "2 min 5 s"])
        self.assertEqual([progress_line.about_text(s) for s in (1, 42, 89, 100, 250)], ["10 s", "40 s", "90 s", "2 min", "4 min"])


class Commands(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.addCleanup(self.kept.cleanup)
        self.log = pathlib.Path(self.kept.name) / "log"

    def command(self, script, *how):
        return [sys.executable, TOOLS / "command_progress.py", *how, self.log, "label", "bash", "-c", script]

    def test_the_output_is_the_logs_and_the_status_the_commands(self):
        done = subprocess.run(self.command("echo said; echo wrong >&2; exit 3"), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "", ""))
        self.assertEqual(self.log.read_text(), "said\nwrong\n")
        self.assertEqual(subprocess.run(self.command("kill -9 $$")).returncode, 137)
        self.assertEqual(subprocess.run([*self.command("")[:2], "--seconds", "5"], capture_output=True).returncode, 2)

    def test_a_terminal_sees_what_apt_tells(self):
        script = """echo dlstatus:1:50.0:"Retrieving file 1 of 2 (3s remaining)"; echo heard; sleep 1.6
            echo pmstatus:hello:50.0:Unpacking hello; sleep 1.2"""
        status, said = run_on_terminal(self.command(script, "--apt"))
        self.assertEqual(status, 0)
        self.assertRegex(said, r"\rlabel: 25 %, [12] s, about 10 s left; Retrieving file 1 of 2 *\r")
        self.assertRegex(said, r"\rlabel: 75 %, [23] s, about 10 s left; Unpacking hello *\r")
        self.assertNotIn("\n", said)
        self.assertEqual(self.log.read_text(), "heard\n")

    def test_folders_that_fill_tell_megabytes(self):
        folder = pathlib.Path(self.kept.name) / "filled"
        folder.mkdir()
        script = f"head -c 5000000 /dev/zero >{folder}/file; sleep 1.6"
        status, said = run_on_terminal(self.command(script, "--fills", "20", f"{folder}:/nowhere"))
        self.assertEqual(status, 0)
        self.assertRegex(said, r"\rlabel: 5 of about 20 MB, \d s, [\d.]+ MB/s, about 10 s left; begins")

    def test_seconds_are_learnt(self):
        status, said = run_on_terminal(self.command("sleep 1.6", "--seconds", "300"))
        self.assertRegex(said, r"\rlabel: [12] s, about 5 min left; begins")
        self.assertLess(float((self.log.parent / "log.seconds").read_text()), 60)
        self.assertRegex(run_on_terminal(self.command("sleep 1.6", "--seconds", "300"))[1], r"\rlabel: [12] s, about 10 s left")
        self.assertRegex(run_on_terminal(self.command("sleep 1.6", "--at-most", "9"))[1], r"\rlabel: [12] s of at most 9 s; begins")

    def test_an_interrupt_ends_the_command(self):
        running = subprocess.Popen(self.command("trap '' INT; sleep 30"), stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        self.assertEqual((running.wait(20), running.stderr.read()), (130, ""))
        running.stderr.close()

    def test_a_stage_passes_on_what_it_gets(self):
        kept, output = self.log.with_name("kept"), self.log.with_name("output")
        kept.write_text("5 before\n300 a stage\n600 behind\n")
        stage = f"{sys.executable} {TOOLS / 'stage_progress.py'} {kept}"
        script = f"set -o pipefail; {{ echo one; sleep 1.6; printf two; sleep 1.2; echo; }} | {stage} 'a stage' {output}"
        status, said = run_on_terminal(["bash", "-c", script], columns=100)
        self.assertEqual((status, output.read_text()), (0, "one\ntwo\n"))
        self.assertRegex(said, r"^one\r\n(\ra stage: \d s, about 5 min left, 15 min for all *)+\r *\rtwo\r\n$")
        done = subprocess.run(["bash", "-c", f"echo one | {stage} other {output}"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "one\n", ""))


class Testing(unittest.TestCase):
    def course(self, path, jobs=2):
        course = test_course.Course(path, jobs)
        course.line = progress_line.ProgressLine(io.StringIO(), 0.0)
        return course

    def test_says_what_runs_and_learns_how_long_it_takes(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as said:
            path = pathlib.Path(folder) / "seconds.json"
            course = self.course(path)
            course.expect({"array_test": 100, "nn_test": 20})
            self.assertEqual(course.left(), 100 * test_course.SECONDS_PER_CASE)  # the longest
            course.begin("array_test")
            for line in ("[progress] started a\n", "[progress] passed in 0.1 s\n", "[progress] failed in 0.1 s\n", "other\n"):
                course.hear("array_test", line)
            course.show()
            self.assertRegex(course.line.stream.getvalue(), r"left; running array_test 2/100, 1 to come")
            course.started -= 10
            course.show()
            self.assertRegex(course.line.stream.getvalue(), r"10 s, 1\d cases/min, about \d+ s left;")
            for _ in range(98):
                course.hear("array_test", "[progress] passed in 0.1 s\n")
            course.end("array_test", 50.0)
            course.keep()
            course = self.course(path)
            course.expect({"array_test": 100})
            self.assertEqual(course.left(), 50.0)  # one executable is no faster on two cores
            self.assertIn("on the average", said.getvalue())
            self.assertIn("running 100 test cases of 1 programs, 2 at a time: about 50 s (as last time)", said.getvalue())

    def test_what_crashed_teaches_nothing(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            path = pathlib.Path(folder) / "seconds.json"
            path.write_text("{broken")
            course = self.course(path)
            course.expect({"array_test": 100})
            course.begin("array_test")
            course.end("array_test", 0.1)
            self.assertEqual(course.seconds, {})


if __name__ == "__main__":
    unittest.main()
