# SPDX-License-Identifier: Apache-2.0
"""Jobs of several processes that campaigns start and disturb: of long_training.cpp, or of what prints the same."""

import argparse
import contextlib
import os
import pathlib
import random
import re
import secrets
import signal
import socket
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/tests/campaigns/long_training"
STEP = re.compile(r"step (\d+) at (\d+) us((?: \d+)+)$")
ERROR = re.compile(r"error at (\d+): (.*)", re.DOTALL)
MAX_SHOWN = 3000
STARTING = 60  # s, for a process to be loaded and to find the others on a busy machine


def seconds():
    """Of the clock whose nanoseconds the processes print."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e9


def load():
    return pathlib.Path("/proc/loadavg").read_text(encoding="ascii").split()[0]


def percentile(values, percent):
    """The nearest value of `values`, of which there is one at least."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


class Process:
    """One rank. A thread reads what it prints."""

    def __init__(self, rank, command, environment):
        self.rank = rank
        self.lines = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                        errors="replace", stderr=subprocess.STDOUT, env=environment,
                                        start_new_session=True)
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()

    def prints(self, beginning, patience):
        """Whether a line that begins so has come, or comes within so many seconds and before the process ends."""
        def there():
            return any(line.startswith(beginning) for line in self.lines)
        end = seconds() + patience
        with self.changed:
            while not there() and seconds() < end and (self.is_alive() or self.reader.is_alive()):
                self.changed.wait(0.05)
            return there()

    def is_alive(self):
        return self.process.poll() is None

    def signal(self, number):
        """The time at which it was sent; None to one that has ended."""
        now = seconds()
        if not self.is_alive():
            return None
        os.kill(self.pid, number)
        return now

    def status_within(self, patience):
        """Its status, with all that it printed in `lines`; None if it goes on."""
        try:
            status = self.process.wait(max(0, patience))
        except subprocess.TimeoutExpired:
            return None
        self.reader.join(5)
        return status

    def steps(self):
        """(number, time when it ended, µs of each of the hundred before it) of its lines."""
        found = (STEP.match(line) for line in list(self.lines))
        return [(int(m[1]), int(m[2]) / 1e9, [int(each) for each in m[3].split()]) for m in found if m]

    def error(self):
        """(time, text) of its error; None without one."""
        match = ERROR.search("\n".join(line for line in list(self.lines) if not STEP.match(line)))
        return (int(match[1]) / 1e9, match[2]) if match else None

    def line(self, beginning):
        """The rest of the first line that begins so; empty without one."""
        return next((line[len(beginning):] for line in list(self.lines) if line.startswith(beginning)), "")

    def shown(self):
        lines = [line for line in self.lines if not STEP.match(line)]
        steps = self.steps()
        status = self.process.poll()
        return (f"rank {self.rank}, pid {self.pid}, {'running' if status is None else f'status {status}'}, "
                f"{steps[-1][0] if steps else 0} steps: " + "\n    ".join(lines))[:MAX_SHOWN]


def free_port():
    """A port where nobody listens, of those that systems give to no connection."""
    for port in random.sample(range(10_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError("no free port")


class Job:
    """Processes of one training on this host, with a secret of their own. Ends them when it goes."""

    def __init__(self, options, engine, steps, ranks, silence=2000, rendezvous=60000):
        self.folder = tempfile.TemporaryDirectory(prefix="campaign-")
        self.secret = pathlib.Path(self.folder.name) / "secret"
        self.secret.touch(mode=0o600)
        self.secret.write_text(secrets.token_hex(32), encoding="ascii")
        self.command = [str(options.program), str(steps), engine, str(silence), str(rendezvous)]
        self.ranks = ranks
        self.engine = "shared memory" if engine == "automatic" else "network"
        self.address = f"127.0.0.1:{free_port()}"
        self.shared_before = set(os.listdir("/dev/shm"))
        self.processes = []

    def wrong_engine(self, process):
        """What is wrong with the engine that the process has told of, if it has."""
        line = process.line("engine ")
        return f"rank {process.rank} has the engine {line}, not {self.engine}" if line not in ("", self.engine) else ""

    def start(self, ranks=None, **variables):
        """These ranks, or all, with more variables."""
        for rank in range(self.ranks) if ranks is None else ranks:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")} | {
                "TUTTI_RANK": str(rank), "TUTTI_WORLD_SIZE": str(self.ranks), "TUTTI_LOCAL_RANK": str(rank),
                "TUTTI_LOCAL_WORLD_SIZE": str(self.ranks), "TUTTI_RENDEZVOUS": self.address,
                "TUTTI_JOB": self.address, "TUTTI_SECRET_FILE": str(self.secret)} | variables
            self.processes.append(Process(rank, self.command, environment))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in self.processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(each.pid, signal.SIGKILL)
            each.process.wait()
            each.reader.join(5)
            each.process.stdout.close()
        self.folder.cleanup()

    def ends_within(self, patience):
        """Whether all of them end."""
        end = seconds() + patience
        return all([each.status_within(end - seconds()) is not None for each in self.processes])

    def left_behind(self):
        """What stays when all have ended: files in shared memory, processes that they started."""
        left = [f"/dev/shm/{name}" for name in sorted(set(os.listdir("/dev/shm")) - self.shared_before)]
        for each in self.processes:
            if each.is_alive():
                left.append(f"rank {each.rank}, pid {each.pid}")
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, 0)
                left.append(f"a process that rank {each.rank} started")
        return left

    def shown(self):
        return "\n".join("  " + each.shown() for each in self.processes)


def options_of(description, **more):
    """Parses the options that all campaigns have, and `more`: their names and argparse's words for them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM,
                        help="what each process runs: a build of tests/campaigns/long_training.cpp")
    for name, words in more.items():
        parser.add_argument("--" + name, **words)
    options = parser.parse_args()
    if not os.access(options.program, os.X_OK):
        parser.error(f"there is no {options.program}: ninja -C build/release tests/campaigns/long_training builds it")
    return options


def summed(passed, failed):
    """Prints the last line, as tools/dev/check.sh reads it; the status of the campaign."""
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0
