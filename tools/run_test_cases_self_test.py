#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/run_test_cases.py on a program that talks as doctest does, whose test cases pass, fail, crash, hang or break the GPU."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

RUN = pathlib.Path(__file__).with_name("run_test_cases.py")
# Keeps no state: what breaks its GPU breaks it for the rest of the process.
PROGRAM = """#!{python}
import os, sys, time
CASES = {cases!r}
given = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
if "--list-test-cases" in sys.argv:
    print("a line before")
    print('<?xml version="1.0"?><doctest>' + "".join(
        '<TestCase name="%s" filename="../tests/%s/some_test.cpp"/>' % (name, name.split(":")[0]) for name, _ in CASES) + "</doctest>")
    sys.exit()
with open({log!r}, "a") as log:
    log.write(given["--first"] + " ")
broken = status = 0
for name, does in CASES[int(given["--first"]) - 1:int(given["--last"])]:
    print("[progress] started " + name, flush=True)
    if does == "crash": os.abort()
    if does == "exit": sys.exit(3)
    if does == "hang": time.sleep(60)
    if does == "breaks": broken = 1  # and notices nothing
    if does == "breaks itself" or broken and does != "breaks":
        broken = 1
        print("[sum] cuda:0: failed: an illegal memory access was encountered (cudaErrorIllegalAddress)")
    failed = does == "fails" or broken and does != "breaks"
    if does == "fails": print("1 == 2")
    status |= failed
    print("[progress] %s in 0.001 s" % ("failed" if failed else "passed"), flush=True)
sys.exit(status or {after})
"""


class Runs(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.kept.name)

    def tearDown(self):
        self.kept.cleanup()

    def write_program(self, does, after):
        """Its cases are named a:0, a:1, ..."""
        program = self.folder / "program"
        cases = [(f"a:{number}", each) for number, each in enumerate(does)]
        self.log = self.folder / "log"
        self.log.write_text("")
        program.write_text(PROGRAM.format(python=sys.executable, cases=cases, log=str(self.log), after=after))
        program.chmod(0o755)
        return program

    def run_cases(self, *does, after=0, arguments=()):
        """The status, the output, and the report's `folder a`."""
        program = self.write_program(does, after)
        report = self.folder / "report.json"
        done = subprocess.run([sys.executable, RUN, program, "--report", report, "--case-timeout", "1", *arguments],
                              capture_output=True, text=True, timeout=50)
        self.assertEqual(done.stderr, "")
        run = json.loads(report.read_text())["cpu"]
        return done.returncode, done.stdout, run["executables"]["a"], run["not_run"]

    def expect(self, passed, failures, *does, **options):
        status, output, folder, not_run = self.run_cases(*does, **options)
        self.assertEqual((folder["passed"], folder["failures"], not_run), (passed, failures, 0), output)
        self.assertEqual(status, 1 if failures else 0)
        return output

    def starts(self):
        return sorted(map(int, self.log.read_text().split()))

    def test_passes_and_fails(self):
        self.expect(3, [], "passes", "passes", "passes")
        self.assertEqual(self.starts(), [1])
        self.assertIn("1 == 2", self.expect(2, ["a:1"], "passes", "fails", "passes"))
        self.assertEqual(self.starts(), [1])

    def test_goes_on_behind_what_ends_the_process(self):
        self.assertIn("was killed by signal 6", self.expect(2, ["a:1"], "passes", "crash", "passes"))
        self.assertEqual(self.starts(), [1, 3])
        self.assertIn("ended with status 3", self.expect(1, ["a:1"], "passes", "exit"))
        self.assertIn("ran out of time after 1 s", self.expect(2, ["a:0"], "hang", "passes", "passes"))
        self.assertIn("ended with status 5 after its last test case", self.expect(1, ["a:1"], "passes", "passes", after=5))

    def test_a_broken_gpu(self):
        self.assertIn("cudaErrorIllegalAddress", self.expect(2, ["a:0"], "breaks itself", "passes", "passes"))
        self.assertEqual(self.starts(), [1, 2])
        self.expect(3, ["a:1"], "passes", "breaks itself", "passes", "passes")  # tried again by itself
        self.assertEqual(self.starts(), [1, 2, 3])
        self.assertIn('broke the GPU, which "a:2" found', self.expect(3, ["a:1"], "passes", "breaks", "passes", "passes"))

    def test_shares_out_cases(self):
        self.expect(7, [], *["passes"] * 7, arguments=["--together", "3"])
        self.assertEqual(self.starts(), [1, 4, 7])
        began = time.monotonic()
        self.run_cases(*["hang"] * 4, arguments=["--together", "1", "--jobs", "4"])
        self.assertLess(time.monotonic() - began, 4)

    def test_tells_what_there_was_no_time_for(self):
        status, output, folder, not_run = self.run_cases(
            "passes", "hang", "passes", arguments=["--seconds", "1", "--case-timeout", "30"])
        self.assertEqual((status, folder["passed"], folder["failures"], not_run), (124, 1, [], 2))
        self.assertRegex(output, "1 passed, 0 failed, 0 skipped, 2 not run\n$")

    def runs(self, program):
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(program) in path.read_text(errors="replace").split("\0"):
                    return True
            except OSError:
                pass
        return False

    def test_is_ended_with_all_that_it_runs(self):
        program = self.write_program(["hang"], 0)
        running = subprocess.Popen([sys.executable, RUN, program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not self.starts() and time.monotonic() < deadline:
            time.sleep(0.05)
        running.terminate()
        self.assertEqual(running.wait(30), 124)
        while self.runs(program) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse(self.runs(program))

    def test_keeps_what_processes_write(self):
        outputs = self.folder / "outputs"
        self.expect(2, [], "passes", "passes", arguments=["--together", "1", "--outputs", str(outputs), "--wrapper", "env A=b"])
        self.assertEqual(sorted(path.name for path in outputs.iterdir()), ["0001.txt", "0002.txt"])
        self.assertTrue(re.search("started a:1", (outputs / "0002.txt").read_text()))


if __name__ == "__main__":
    unittest.main()
