#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/run_tests.py on a build folder whose executables only say that they passed: which of them it runs."""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RUN_TESTS = pathlib.Path(__file__).with_name("run_tests.py")
EXECUTABLE = """#!/bin/sh
case "$*" in *--count*) echo '[doctest] unskipped test cases passing the current filters: 1'; exit ;; esac
printf '[progress] started a case\\n[progress] passed in 0.1 s\\n'
"""


class Selection(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.build = pathlib.Path(self.kept.name)
        tests = []
        for name in ("array_test", "stream_test"):
            executable = self.build / name
            executable.write_text(EXECUTABLE)
            executable.chmod(0o755)
            tests.append({"cmd": [str(executable)], "suite": ["tutti"]})
        (self.build / "meson-info").mkdir()
        (self.build / "meson-info/intro-tests.json").write_text(json.dumps(tests))

    def tearDown(self):
        self.kept.cleanup()

    def run_tests(self, *arguments):
        return subprocess.run([sys.executable, RUN_TESTS, self.build, *arguments], capture_output=True, text=True)

    def expect_run(self, names, *arguments):
        done = self.run_tests(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(sorted(line.split(":")[0] for line in lines[:-1]), names)
        self.assertEqual(lines[-1], f"{len(names)} passed, 0 failed, 0 skipped")

    def test_runs_what_is_asked_for(self):
        self.expect_run(["array_test", "stream_test"])
        self.expect_run(["stream_test"], "--only", "stream_test")
        self.expect_run(["array_test"], "--leave-out", "stream_test")
        self.expect_run(["array_test"], "--only", "array_test stream_test", "--leave-out", "stream_test")

    def test_runs_several_at_a_time(self):
        meets = """touch {mine}; n=0; while [ ! -e {other} ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
            [ -e {other} ] || exit 1\n"""
        names = ["array_test", "stream_test"]
        for mine, other in (names, reversed(names)):
            wait = meets.format(mine=self.build / f"{mine}.runs", other=self.build / f"{other}.runs")
            first, case, rest = EXECUTABLE.split("\n", 2)
            (self.build / mine).write_text("\n".join([first, case, wait + rest]))
        self.expect_run(names, "--jobs", "2")
        for path in self.build.glob("*.runs"):
            path.unlink()
        self.assertNotEqual(self.run_tests("--jobs", "0").returncode, 0)

    def test_an_interrupt_begins_nothing_more(self):
        first, case, rest = EXECUTABLE.split("\n", 2)
        for name in ("array_test", "stream_test"):
            (self.build / name).write_text("\n".join([first, case, f"touch {self.build / name}.runs; sleep 1\n" + rest]))
        running = subprocess.Popen([sys.executable, RUN_TESTS, self.build, "--jobs", "1"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # jobs ignore it
        begun = lambda: len(list(self.build.glob("*.runs")))
        deadline = time.monotonic() + 30
        while begun() == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=30)[1]
        self.assertEqual(running.returncode, 130)
        self.assertRegex(said, r"^running 2 test cases [^\n]*\n\ntesting was interrupted\n$")
        self.assertEqual(begun(), 1)

    def test_names_what_is_unknown_and_runs_nothing(self):
        for option in ("--only", "--leave-out"):
            done = self.run_tests(option, "array_test strem_test")
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr, f"{option}: there is no strem_test among array_test, stream_test\n")


if __name__ == "__main__":
    unittest.main()
