#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The campaigns on programs that only say what long_training would: what is wrong with a program has to be found."""

import contextlib
import io
import os
import pathlib
import signal
import socket
import sys
import tempfile
import unittest
import unittest.mock

import ended_processes
import false_accusations
import jobs
import strangers

# Ranks tell each other their pids by files beside the secret, and look at each other in /proc.
PROGRAM = '''#!{python}
import os, pathlib, socket, sys, time
steps, engine = int(sys.argv[1]), sys.argv[2]
silence = int(sys.argv[3]) / 1000
wrong = {wrong!r}
rank, size = int(os.environ["TUTTI_RANK"]), int(os.environ["TUTTI_WORLD_SIZE"])
folder = pathlib.Path(os.environ["TUTTI_SECRET_FILE"]).parent
door = socket.create_server(("0.0.0.0" if wrong == "open door" else "127.0.0.1", 0))
door.setblocking(False)
meeting = None if wrong == "no door" else socket.create_server(("127.0.0.1", 0), backlog=100)
(folder / "rank{{}}.part".format(rank)).write_text(str(os.getpid()))
(folder / "rank{{}}.part".format(rank)).rename(folder / "rank{{}}".format(rank))
others = {{}}
while len(others) < size - 1:
    there = {{r: folder / "rank{{}}".format(r) for r in range(size) if r != rank}}
    others = {{r: int(path.read_text()) for r, path in there.items() if path.exists()}}
    time.sleep(0.001)
say = lambda *words: print(*words, flush=True)
def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
def name(r):
    pid = "" if wrong == "no pid" else " (pid {{}})".format(others.get(r, os.getpid()))
    return "rank {{}} on here".format(r) + pid
def fail(text):
    if wrong == "hangs":
        time.sleep(60)
    if wrong == "late":
        time.sleep(3)
    if wrong == "left behind":
        (pathlib.Path("/dev/shm") / "campaigns-self-test-{{}}".format(rank)).touch()
    say("error at {{}}: {{}}".format(now(), text))
    (folder / "done{{}}".format(rank)).touch()  # who ends after an error is not who has died
    sys.exit(1)
def state(pid):
    try:
        return open("/proc/{{}}/stat".format(pid)).read().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"
say("engine", "network" if engine != "automatic" or wrong == "another engine" else "shared memory")
visited = 0
stopped = {{}}
looked = time.monotonic()
for step in range(100, steps + 1, 100):
    time.sleep(0.01)
    pause, looked = time.monotonic() - looked, time.monotonic()
    if pause > 0.9 * silence:
        fail("[sync] " + (name((rank + 1) % size) + " has died" if wrong == "accuses" else
                          name(rank) + " stood still for 1 s" if wrong != "no reason" else name(rank) + " is lost"))
    for r, pid in others.items():
        blamed = r if wrong != "neighbour" else next(iter({{0, 1, 2}} - {{r, rank}}))
        what = state(pid)
        if what in "ZX" and not (folder / "done{{}}".format(r)).exists():
            if wrong == "crashes":
                os.abort()
            fail("[sync] {{}} has died".format(name(blamed)))
        stopped[r] = stopped.get(r, time.monotonic()) if what == "T" else time.monotonic()
        if time.monotonic() - stopped[r] > silence:
            fail("[sync] {{}} has said nothing for 1 s".format(name(blamed)))
    try:
        door.accept()
        visited += 1
    except OSError:
        pass
    if visited and wrong == "fragile":
        fail("[sync] {{}} is lost".format(name(1 - rank)))
    say("step {{}} at {{}} us{{}}".format(step, now(), " 100" * 100))
(folder / "done{{}}".format(rank)).touch()
say("trained", 0.5, 17 + (visited if wrong == "changed by strangers" else 0))
say("closed at", now())
sys.exit(1 if wrong == "accuses nobody and fails" else 0)
'''


class SELF:
    pid = os.getpid()


class Campaigns(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.addCleanup(self.kept.cleanup)

    def run_campaign(self, campaign, wrong, *options):
        """Its status and what it prints."""
        program = pathlib.Path(self.kept.name) / "program"
        program.write_text(PROGRAM.format(python=sys.executable, wrong=wrong), encoding="ascii")
        program.chmod(0o755)
        output = io.StringIO()
        argv = [campaign.__name__, "--program", str(program), *options]
        with unittest.mock.patch("sys.argv", argv), contextlib.redirect_stdout(output):
            status = campaign.main()
        return status, output.getvalue()

    def end_one(self, wrong, number, moment="training"):
        def plan(*_):
            return ended_processes.Plan("automatic", number, moment, victim=1, delay=0.1)
        words = {"plan": plan, "SILENCE": 1.0, "ENDING": 4, "RENDEZVOUS": 1.0, "PROMPT": 1.5}
        with unittest.mock.patch.multiple(ended_processes, **words):
            return self.run_campaign(ended_processes, wrong, "--runs", "1")

    def found(self, wrong, number, text, moment="training"):
        status, output = self.end_one(wrong, number, moment)
        self.assertEqual(status, 1, output)
        self.assertIn(text, output)
        self.assertIn("MISSED in run 0 of seed 1", output)
        self.assertTrue(output.endswith("0 passed, 1 failed, 0 skipped\n"), output)

    def test_what_is_right_passes(self):
        for number in (signal.SIGKILL, signal.SIGSTOP):
            for moment in ("training", "ending"):
                status, output = self.end_one("", number, moment)
                self.assertEqual(status, 0, output)
                self.assertTrue(output.endswith("1 passed, 0 failed, 0 skipped\n"), output)

    def test_ended_processes_finds(self):
        self.found("hangs", signal.SIGKILL, "rank 0 hangs")
        self.found("late", signal.SIGKILL, "later than 1.500 s")
        self.found("late", signal.SIGSTOP, "later than 2.500 s")
        self.found("no pid", signal.SIGKILL, "does not name rank 1, its host and pid")
        self.found("neighbour", signal.SIGKILL, "rank 0 does not name rank 1")
        self.found("crashes", signal.SIGKILL, "status -6, without a word")
        self.found("another engine", signal.SIGKILL, "rank 0 has the engine network, not shared memory")
        self.found("accuses", signal.SIGSTOP, "the thawed process accuses another")
        self.found("no reason", signal.SIGSTOP, "does not say that it stood still")

    def test_what_stays_is_found(self):
        try:
            self.found("left behind", signal.SIGKILL, "left behind: /dev/shm/campaigns-self-test-")
        finally:
            for rank in range(3):
                pathlib.Path(f"/dev/shm/campaigns-self-test-{rank}").unlink(missing_ok=True)

    def test_plans_depend_on_seed_and_number_alone(self):
        plans = [ended_processes.plan("1", number, 3) for number in range(60)]
        self.assertEqual(plans, [ended_processes.plan("1", number, 3) for number in range(60)])
        self.assertNotEqual(plans, [ended_processes.plan("2", number, 3) for number in range(60)])
        self.assertEqual({plan.victim for plan in plans}, {0, 1, 2})
        self.assertEqual(len({(plan.engine, str(plan)) for plan in plans}), 12)

    def test_strangers(self):
        options = ("--seconds", "1", "--count", "40", "--engines", "automatic")
        texts = {"": "1 passed, 0 failed", "fragile": "rank 0 failed", "open door": "it listens at all addresses",
                 "changed by strangers": "with strangers it gave", "no door": "they never saw the door",
                 "another engine": "rank 0 has the engine network, not shared memory"}
        for wrong, text in texts.items():
            with unittest.mock.patch.object(strangers, "LATER", 0.3):
                status, output = self.run_campaign(strangers, wrong, *options)
            self.assertEqual(status, 1 if wrong else 0, output)
            self.assertIn(text, output)

    def test_doors_are_found(self):
        other = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with socket.create_server(("127.0.0.1", 0)) as door, other:
            other.bind("\0campaigns-self-test")
            other.listen()
            found = strangers.Doors([SELF]).found()
            self.assertIn(("tcp", ("127.0.0.1", door.getsockname()[1])), found)
            self.assertIn(("unix", "campaigns-self-test"), found)
        self.assertEqual(strangers.Doors([SELF]).found(), set())

    def test_false_accusations(self):
        options = ("--minutes", "0.005", "--loops", "1")
        self.assertEqual(self.run_campaign(false_accusations, "", *options)[0], 0)
        status, output = self.run_campaign(false_accusations, "accuses nobody and fails", *options)
        self.assertEqual(status, 1, output)

    def test_percentiles(self):
        self.assertEqual([jobs.percentile([3, 1, 2], percent) for percent in (0, 50, 99, 100)], [1, 2, 3, 3])


if __name__ == "__main__":
    unittest.main()
