# SPDX-License-Identifier: Apache-2.0
"""How far a run of tests is: said by the executables' threads while they run, shown by the one that waits for them."""

import collections
import json
import sys
import threading
import time

from progress_line import ProgressLine, about_text, time_text

# What one test case takes on the average, of programs that have not run here yet: 218 s of one core for the 1,913 of eleven
# programs, on a busy 2-core AMD EPYC.
SECONDS_PER_CASE = 0.11


class Course:
    """What runs, how many test cases of it are done, and how long all will take. Executables' threads tell it."""

    def __init__(self, kept, jobs):
        """`kept`: the file that has what test cases took in the last run. `jobs`: how many executables run at a time."""
        self.kept, self.jobs, self.line = kept, jobs, ProgressLine()
        self.seconds = self.read_seconds()  # of one test case, by executable
        self.lock = threading.Lock()
        self.waiting, self.running, self.done = {}, {}, collections.Counter()
        self.started = time.monotonic()

    def read_seconds(self):
        try:
            return {name: float(seconds) for name, seconds in json.loads(self.kept.read_text()).items()}
        except (OSError, ValueError, AttributeError, TypeError):  # no run yet, or one that was ended while it wrote
            return {}

    def expect(self, cases):
        """What will run: test cases by executable."""
        self.waiting = dict(cases)
        if cases:
            source = "as last time" if all(name in self.seconds for name in cases) else "on the average"
            print(f"running {sum(cases.values())} test cases of {len(cases)} programs, {self.jobs} at a time: "
                  f"about {about_text(self.left())} ({source})", file=sys.stderr, flush=True)

    def begin(self, name):
        with self.lock:
            self.running[name] = self.waiting.pop(name)
            self.done[name] = 0

    def hear(self, name, line):
        if line.startswith(("[progress] passed", "[progress] failed")):
            with self.lock:
                self.done[name] += 1

    def end(self, name, seconds):
        with self.lock:
            cases = self.running.pop(name)
            if cases and self.done[name] == cases:
                self.seconds[name] = round(seconds / cases, 4)

    def left(self):
        """Seconds: no less than what the longest still takes, and what all share."""
        each = [max(1, cases - self.done[name]) * self.seconds.get(name, SECONDS_PER_CASE)
                for name, cases in [*self.waiting.items(), *self.running.items()]]
        return max(sum(each) / self.jobs, max(each, default=0))

    def show(self):
        with self.lock:
            texts = [f"{name} {self.done[name]}/{cases}" for name, cases in self.running.items()]
            more = f", {len(self.waiting)} to come" if self.waiting else ""
            took = time_text(time.monotonic() - self.started, self.left(), self.done.total(), "cases")
        self.line.show(f"{took}; running {', '.join(texts) or 'nothing'}{more}")

    def keep(self):
        """For the next run's estimate."""
        self.kept.write_text(json.dumps(self.seconds, indent=1) + "\n")
