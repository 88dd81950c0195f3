#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers at every door of two processes that train.

They come to every port on which `ss` shows one of the two, and to every abstract unix socket: with garbage, in silence,
with the handshakes of one who knows no secret, with huge lengths, with random frames. A thousand of them, of whom at
most 200 stay at a time. The training has to go on to its end, with the loss and the parameters that it has alone, and
no door may be open at all addresses.

Reports how long a step takes with and without them. Nothing depends on that: the strangers compute, too.
"""

import contextlib
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time

import jobs

MOST_OPEN = 200
STAY = 3.0  # s, at most
LATER = 2.0  # s, for which rank 0 waits for rank 1, beside strangers
# The greeting of libzmq's protocol, ZMTP 3.0.
CURVE = (b"\xff\0\0\0\0\0\0\0\0\x7f" b"\x03\x00" + b"CURVE".ljust(20, b"\0") + b"\0").ljust(64, b"\0")
PLAIN = CURVE.replace(b"CURVE", b"NULL\0")


def frames(chance):
    """One stranger's name, and what it sends, piece by piece."""
    noise = chance.randbytes
    return chance.choice([
        ("silence", []),
        ("garbage", [noise(chance.randrange(1, 4096))]),
        ("garbage in pieces", [noise(chance.randrange(1, 64)) for _ in range(20)]),
        ("a greeting without keys", [PLAIN, b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x06DEALER"]),
        ("a greeting and silence", [CURVE]),
        # 200 bytes of CURVE's hello, with keys that are none
        ("a wrong key", [CURVE, b"\x04\xc8\x05HELLO\x01\0" + bytes(72) + noise(120)]),
        ("a huge length", [CURVE, b"\x06" + struct.pack(">Q", 2**63 - 1) + noise(64)]),
        ("a huge length at once", [struct.pack("<Q", 2**64 - 1) * 8]),
        ("random frames", [CURVE] + [bytes([chance.choice((0, 1, 2, 4, 6))]) + bytes([n]) + noise(n)
                                     for n in (chance.randrange(1, 255) for _ in range(10))]),
        ("a rank without a token", [struct.pack("<I", chance.randrange(3)) + noise(32)]),
        ("a long message", [noise(60_000)]),
    ])


class Doors:
    """Where processes listen."""

    def __init__(self, processes):
        self.processes = processes  # more may come

    def _lines(self, option):
        words = subprocess.run(["ss", "-Hnpl", option], capture_output=True, text=True, check=True).stdout
        pids = [each.pid for each in self.processes]
        return [line.split() for line in words.splitlines() if any(f"pid={pid}," in line for pid in pids)]

    def found(self):
        """(family, address) of each."""
        doors = set()
        for words in self._lines("-t"):
            host, _, port = words[3].rpartition(":")
            doors.add(("tcp", (host.strip("[]").split("%")[0], int(port))))
        for words in self._lines("-x"):
            if words[4].startswith("@"):
                doors.add(("unix", words[4][1:]))
        return doors


def connected(door):
    family, address = door
    if family == "tcp":
        stranger = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
    else:
        stranger, address = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), "\0" + address
    stranger.settimeout(1)
    try:
        stranger.connect(address)
    except OSError:
        stranger.close()
        return None
    return stranger


class Strangers(threading.Thread):
    """Comes again and again, to each door that there is, evenly over the time."""

    def __init__(self, doors, seed, count, duration):
        super().__init__(daemon=True)
        self.doors, self.chance, self.count, self.duration = doors, random.Random(seed), count, duration
        self.seen, self.came, self.turned_away, self.most_open = set(), 0, 0, 0
        self.begin = self.end = 0.0
        self.stopping = threading.Event()

    def run(self):
        found = set()
        while not found and not self.stopping.wait(0.02):
            found = self.doors.found()
        self.begin = looked = jobs.seconds()
        staying = []
        for number in range(self.count):
            # New doors are open for a moment only while the processes meet.
            if jobs.seconds() > looked + (0.1 if jobs.seconds() < self.begin + 2 * LATER + 1 else 1):
                found = self.doors.found()
                looked = jobs.seconds()
            self.seen |= found
            if self.stopping.wait(max(0, self.begin + number * self.duration / self.count - jobs.seconds())):
                break
            staying = self.keep(staying)
            if found:
                self.visit(self.chance.choice(sorted(found)), staying)
        self.end = jobs.seconds()
        for _, stranger in staying:
            stranger.close()

    def keep(self, staying):
        late = jobs.seconds() - STAY
        kept = [each for each in staying if each[0] > late][-(MOST_OPEN - 1):]
        for each in staying:
            if each not in kept:
                each[1].close()
        return kept

    def visit(self, door, staying):
        stranger = connected(door)
        if stranger is None:
            self.turned_away += 1
            return
        self.came += 1
        stranger.setblocking(False)
        with contextlib.suppress(OSError):
            for piece in frames(self.chance)[1]:
                stranger.send(piece)
        if self.chance.random() < 0.3:
            stranger.close()
        else:
            staying.append((jobs.seconds(), stranger))
            self.most_open = max(self.most_open, len(staying))


def has_meeting_door(doors):
    """Whether, beside the control channel's two, there was one where the processes meet. Those where they hand over
    memory are open for milliseconds."""
    return [kind for kind, _ in doors].count("tcp") > 2


def is_wildcard(door):
    return door[0] == "tcp" and door[1][0] in ("0.0.0.0", "::", "*")


def trained(options, engine, steps, strangers=None):
    """The job's misses, result, times of steps, and strangers. Where there are some, rank 1 comes later, and then lets
    rank 0 wait once more, at the door where connections for gradients would come."""
    with jobs.Job(options, engine, steps, 2) as job:
        visits = None
        job.start([0])
        if strangers:
            visits = Strangers(Doors(job.processes), options.seed, options.count, options.seconds)
            visits.start()
            time.sleep(LATER)
        job.start([1], MEETING_DELAY=str(int(LATER * 1000)) if strangers else "0")
        ended = job.ends_within(options.patience)
        if visits:
            visits.stopping.set()
            visits.join(30)
        misses = [] if ended else ["it hangs"]
        misses += [f"rank {each.rank} failed" for each in job.processes if each.process.returncode not in (0, None)]
        misses += filter(None, map(job.wrong_engine, job.processes))
        result = [each.line("trained ") for each in job.processes]
        times = [(end, microseconds) for _, end, microseconds in job.processes[0].steps()]
        if misses:
            print(job.shown())
        return misses, result, times, visits


def told(name, times):
    print(f"  {name:8} {len(times):6} steps, µs: median {jobs.percentile(times, 50)}, p99 {jobs.percentile(times, 99)}, "
          f"longest {max(times)}; load {jobs.load()}")


def compared(options, engine):
    """The misses of one engine."""
    print(f"{engine}:", flush=True)
    misses, _, times, _ = trained(options, engine, 1000)
    if misses:
        return misses
    mean = sum(sum(each) for _, each in times) / 1000 / 1e6
    steps = max(1000, int(1.3 * options.seconds / mean) // 100 * 100)
    misses, alone, times, _ = trained(options, engine, steps)
    if misses:
        return misses
    quiet = [each for _, hundred in times for each in hundred]
    told("alone", quiet)
    misses, result, times, visits = trained(options, engine, steps, strangers=True)
    if result != alone:
        misses.append(f"with strangers it gave {result}, alone {alone}")
    disturbed = [each for end, hundred in times if visits.begin < end < visits.end for each in hundred]
    if not disturbed or visits.came < options.count // 2:
        misses.append("hardly a stranger came while it trained")
    else:
        told("visited", disturbed)
        print(f"  ratios: median {jobs.percentile(disturbed, 50) / jobs.percentile(quiet, 50):.2f}, "
              f"p99 {jobs.percentile(disturbed, 99) / jobs.percentile(quiet, 99):.2f}")
    print(f"  {visits.came} strangers came in {visits.end - visits.begin:.0f} s, {visits.most_open} at most stayed, "
          f"{visits.turned_away} found a door shut; doors:", *sorted(map(str, visits.seen)))
    if not has_meeting_door(visits.seen):
        misses.append("they never saw the door where the processes meet")
    misses += [f"it listens at all addresses: {door[1]}" for door in visits.seen if is_wildcard(door)]
    return misses


def main():
    options = jobs.options_of(
        __doc__, seed={"default": "1", "help": "any word; chooses what strangers do"},
        count={"type": int, "default": 1000, "help": "number of strangers"},
        seconds={"type": float, "default": 20, "help": "time in which they come"},
        patience={"type": float, "default": 300, "help": "seconds after which a training hangs"},
        engines={"nargs": "+", "default": ["automatic", "network"]})
    failed = 0
    for engine in options.engines:
        misses = compared(options, engine)
        failed += bool(misses)
        for each in misses:
            print(f"MISSED with {engine}, seed {options.seed}: {each}")
    return jobs.summed(len(options.engines) - failed, failed)


if __name__ == "__main__":
    sys.exit(main())
