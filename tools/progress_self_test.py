#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What compiling and testing say while they last: tools/compile_progress.py on a small build, and tools/test_course.py."""

import contextlib
import io
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import unittest

import compile_progress
import progress_line
import test_course

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

    def compile(self, command="true", **streams):
        (self.folder / "build.ninja").write_text(BUILD.format(command=command))
        return subprocess.run([sys.executable, TOOLS / "compile_progress.py", self.folder], text=True,
                              **(streams or {"capture_output": True}))

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
        ours, theirs = pty.openpty()
        with open(ours, "rb", buffering=0) as reader:
            os.environ["TERM"] = "xterm"
            self.assertEqual(self.compile(stdout=theirs, stderr=theirs).returncode, 0)
            os.close(theirs)
            said = b""
            with contextlib.suppress(OSError):  # the end of a terminal
                while chunk := reader.read(4096):
                    said += chunk
        self.assertIn(b"\r[1/3] ", said)
        self.assertIn(b"made ", said)
        self.assertNotIn(b"\x1b", said)
        self.assertEqual(said.count(b"\n"), 2)

    def test_the_status_and_the_log_are_ninjas(self):
        done = self.compile("echo what is wrong; false")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("what is wrong", (self.folder / "compile.log").read_text())
        self.assertNotIn("compiled", done.stderr)

    def test_estimates_from_what_was_seen(self):
        left = compile_progress.Estimate(2).left
        self.assertEqual(left(0, 100, 0.0), 100 * compile_progress.SECONDS_PER_STEP / 2)
        self.assertLess(left(50, 100, 10.0), left(50, 100, 100.0))
        self.assertEqual(left(100, 100, 50.0), 0)
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
        os.environ["TERM"] = "xterm"
        stream = Terminal()
        line = progress_line.ProgressLine(stream)
        line.show("longer text")
        line.show("short")
        line.clear()
        self.assertEqual(stream.getvalue(), "\rlonger text\rshort      \r     \r")

    def test_durations(self):
        self.assertEqual([progress_line.duration_text(s) for s in (0, 59.4, 125)], ["0 s", "59 s", "2 min 5 s"])
        self.assertEqual([progress_line.about_text(s) for s in (1, 42, 89, 100, 250)], ["10 s", "40 s", "90 s", "2 min", "4 min"])


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
