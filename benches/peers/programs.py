# SPDX-License-Identifier: Apache-2.0
"""Runs programs of one or several ranks, and leaves nothing of them behind."""

import contextlib
import ctypes
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)  # which end a program
GRACE = 3.0  # seconds between SIGTERM and SIGKILL, in which mpirun and Gloo take their files away
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>


@dataclass
class Program:
    """One program, in as many ranks as it has; what rank 0 prints is read."""

    command: list
    measures: list  # rows of the comparison
    ranks: int = 1
    environment: dict = field(default_factory=dict)
    seconds: float = 300  # several times what the slowest takes on a quiet machine


class ProgramError(Exception):
    """Why a program has given no figures."""


class Rank:
    """A process in a session of its own, which ends when we do. It writes to files: a pipe that is full would stop it."""

    def __init__(self, program, variables, opened, mask):
        """`mask`: signals that the process holds, in place of ours."""
        self.output, self.errors = (opened.enter_context(tempfile.TemporaryFile("w+", errors="replace")) for _ in range(2))
        self.process = subprocess.Popen(
            program.command, stdout=self.output, stderr=self.errors, start_new_session=True,
            env=os.environ | program.environment | variables,
            preexec_fn=lambda: (LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
                                signal.pthread_sigmask(signal.SIG_SETMASK, mask)))


def said(file):
    """All that an ended rank wrote to it."""
    file.seek(0)
    return file.read()


def exit_on_signals():
    """Makes signals raise SystemExit, so that what is running is ended first. nohup's stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def variables_of_ranks(ranks):
    """What a launcher would set, for each rank."""
    port, secret = free_port(), secrets.token_hex(16)
    return [{"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks),
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TUTTI_SECRET": secret} for rank in range(ranks)]


def wait_for(ranks, seconds):
    """Waits until all have ended well: None; else, at once, why not and the ranks to be heard on it."""
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as opened:
        running = {}
        for number, rank in enumerate(ranks):
            descriptor = os.pidfd_open(rank.process.pid)
            opened.callback(os.close, descriptor)
            running[descriptor] = number
        while running:
            ended = select.select(running, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ended:
                return f"out of time after {seconds} s", ranks
            for descriptor in ended:
                number = running.pop(descriptor)
                if status := ranks[number].process.wait():
                    return f"{f'rank {number} ' * (len(ranks) > 1)}ended with status {status}", [ranks[number]]
    return None


@contextlib.contextmanager
def signals_held():
    """Has signals to us wait meanwhile. Gives the mask of before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end(ranks):
    """Ends those that still run, and the children that any has left. Signals to us wait meanwhile."""
    with signals_held():
        for number, grace in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
            for rank in ranks:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(rank.process.pid, number)
            for rank in ranks:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    rank.process.wait(grace)


def output_of(program):
    """What rank 0 printed. Raises ProgramError when a rank failed or time ran out, which a peer may."""
    ranks = []
    with contextlib.ExitStack() as opened:
        try:
            for variables in variables_of_ranks(program.ranks) if program.ranks > 1 else [{}]:
                with signals_held() as mask:  # else one could run that is in no list yet
                    ranks.append(Rank(program, variables, opened, mask))
            problem = wait_for(ranks, program.seconds)
        except OSError as error:
            raise ProgramError(error) from error
        finally:
            end(ranks)
        if problem:
            why, heard = problem
            errors = next(filter(None, (said(rank.errors).strip() for rank in heard)), "")
            raise ProgramError(f"{why}: ...{errors[-300:]}")
        return said(ranks[0].output)
