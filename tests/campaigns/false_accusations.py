#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains in two processes, again and again, beside busy loops that leave them little of the processors.

Nobody fails, so nobody may be accused: each training has to end well, with the parameters of the first.
"""

import signal
import subprocess
import sys

import jobs


def main():
    options = jobs.options_of(
        __doc__, minutes={"type": float, "default": 10}, loops={"type": int, "default": 8},
        steps={"type": int, "default": 1000, "help": "of each training"},
        patience={"type": float, "default": 600, "help": "seconds after which a training hangs"})
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.loops)]
    passed = failed = 0
    first, times = None, []
    try:
        end = jobs.seconds() + 60 * options.minutes
        while jobs.seconds() < end:
            engine = ("automatic", "network")[(passed + failed) % 2]
            with jobs.Job(options, engine, options.steps, 2) as job:
                job.start()
                ended = job.ends_within(options.patience)
                results = [each.line("trained ").split()[-1:] for each in job.processes]
                first = first or results[0]
                well = (ended and results == [first] * 2 and first and
                        all(each.process.returncode == 0 and not job.wrong_engine(each) for each in job.processes))
                times += [each for _, _, hundred in job.processes[0].steps() for each in hundred]
                passed, failed = passed + bool(well), failed + (not well)
                if not well:
                    print(f"MISSED with {engine}, load {jobs.load()}:\n{job.shown()}", flush=True)
    finally:
        for each in loops:
            each.send_signal(signal.SIGKILL)
            each.wait()
    print(f"{passed + failed} trainings beside {options.loops} busy loops, load {jobs.load()}; a step's µs: median "
          f"{jobs.percentile(times or [0], 50)}, p99 {jobs.percentile(times or [0], 99)}, longest {max(times or [0])}")
    return jobs.summed(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
