#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills or stops a random process of a training at a random moment, again and again.

The moments: while the processes find each other, in the midst of the training, and around its last step. All the others
have to end by themselves, in time, with an error that names the one and nobody else; a stopped process, once it goes
on, has to end with an error that says that it stood still, and accuse nobody. Nothing may stay behind.
A kill is to be told within half a second, a stop within that and the silence, and what happens before a process has
come within the rendezvous. Where the training had ended before, all have to end well.

A run is told by its seed: `--seed SEED --first N --runs 1` repeats it.
"""

import collections
import dataclasses
import random
import re
import signal
import statistics
import sys
import time

import jobs

PROMPT = 0.5  # s
ENDING = 5  # s, for a process to end after its error
SILENCE = 2.0
RENDEZVOUS = 5.0
REFUSING = 1.0  # s, for rank 0 to tell the others why there is no job, and for all to be loaded
LONG, SHORT = 1_000_000, 400  # steps
RANK = re.compile(r"rank (\d+)\b")
BLAMELESS = re.compile(r"\branks? [\d, ]+ ha(s|ve) come\b| for rank 0\b")  # whoever these words name
NOT_COME = r"\[rendezvous\] .*(\brank {0} (is missing|died)\b| for rank {0}\b(?!, which said))"  # of this rank


@dataclasses.dataclass
class Plan:
    engine: str
    signal: int
    moment: str
    victim: int
    delay: float  # of the moment's span, 0 to 1

    def __str__(self):
        name = "killed" if self.signal == signal.SIGKILL else "stopped"
        return f"{name} {self.moment}"


def plan(seed, number, processes):
    chance = random.Random(f"{seed} {number}")
    return Plan(engine=("automatic", "network")[number % 2], signal=chance.choice((signal.SIGKILL, signal.SIGSTOP)),
                moment=chance.choices(("connecting", "training", "ending"), (3, 4, 3))[0],
                victim=chance.randrange(processes), delay=chance.random())


@dataclasses.dataclass
class Outcome:
    delay: float | None = None  # s, from the signal to the last error; None: all ended well
    misses: list = dataclasses.field(default_factory=list)
    shown: str = ""
    told: str = ""  # what a survivor said


class Run:
    """One job, disturbed once."""

    def __init__(self, options, its_plan):
        self.options, self.plan, self.outcome = options, its_plan, Outcome()
        steps = SHORT if its_plan.moment == "ending" else LONG
        self.job = jobs.Job(options, its_plan.engine, steps, options.processes, silence=int(SILENCE * 1000),
                            rendezvous=int(RENDEZVOUS * 1000))

    def miss(self, text):
        self.outcome.misses.append(text)

    def run(self):
        with self.job:
            self.started = jobs.seconds()
            self.job.start()
            self.victim = self.job.processes[self.plan.victim]
            self.survivors = [each for each in self.job.processes if each is not self.victim]
            if self.wait_for_moment():
                self.disturb()
            self.outcome.shown = self.job.shown()
        return self.outcome

    def wait_for_moment(self):
        """False: what should have come before did not."""
        if self.plan.moment == "connecting":
            time.sleep(self.plan.delay * self.options.span)
            return True
        for each in self.job.processes:
            if not each.prints("step 100 " if self.plan.moment == "training" else "step 300 ", jobs.STARTING):
                self.miss(f"rank {each.rank} did not come so far")
                return False
        last_hundred = sum(self.victim.steps()[-1][2]) / 1e6
        time.sleep(self.plan.delay * (1 if self.plan.moment == "training" else 1.5 * last_hundred))
        return True

    def disturb(self):
        at = self.victim.signal(self.plan.signal)
        for each in self.survivors:
            end = max(at or 0, self.started + RENDEZVOUS) + SILENCE + ENDING + self.options.slack
            if each.status_within(end - jobs.seconds()) is None:
                return self.miss(f"rank {each.rank} hangs")
        if self.plan.signal == signal.SIGSTOP:
            self.victim.signal(signal.SIGCONT)
            self.look_at_thawed()
        elif self.victim.status_within(ENDING) is None:
            return self.miss("the killed process lives")
        for each in self.survivors:
            self.look_at_survivor(each, at)
        for each in self.job.left_behind():
            self.miss(f"left behind: {each}")
        return None

    def has_trained(self, each):
        """Whether it has ended well, with the parameters that the training gives."""
        if each.process.returncode != 0 or self.plan.moment == "training":
            return False
        expected = self.options.digests.setdefault(SHORT, each.line("trained ").split()[-1:])
        return expected != [] and each.line("trained ").split()[-1:] == expected and each.line("closed at ") != ""

    def look_at_survivor(self, each, at):
        error = each.error()
        if self.has_trained(each):
            return None
        if error is None or each.process.returncode != 1:
            return self.miss(f"rank {each.rank} ended with status {each.process.returncode}, without a word")
        if at is None:
            return self.miss(f"rank {each.rank} has failed, though rank {self.plan.victim} had ended before the signal")
        time_of_error, text = error
        self.outcome.told = text.splitlines()[0]
        self.outcome.delay = max(self.outcome.delay or 0, time_of_error - at)
        # Where and as what one runs that does not come, nobody has heard.
        may_be_unknown = self.plan.moment == "connecting" and re.search(NOT_COME.format(self.victim.rank), text)
        if not may_be_unknown and not re.search(rf"rank {self.victim.rank} on \S+ \(pid {self.victim.pid}\)", text):
            return self.miss(f"rank {each.rank} does not name rank {self.victim.rank}, its host and pid")
        if others := {int(rank) for rank in RANK.findall(BLAMELESS.sub("", text))} - {self.victim.rank, each.rank}:
            return self.miss(f"rank {each.rank} names {sorted(others)}, too")
        if wrong := self.job.wrong_engine(each):
            return self.miss(wrong)
        limit = PROMPT + self.options.slack + (SILENCE if self.plan.signal == signal.SIGSTOP else 0)
        if self.plan.moment == "connecting":
            limit = max(limit, self.started - at + RENDEZVOUS + REFUSING + self.options.slack)
        if time_of_error - at > limit:
            return self.miss(f"rank {each.rank} has told it after {time_of_error - at:.3f} s, later than {limit:.3f} s")
        return None

    def look_at_thawed(self):
        victim = self.victim
        status = victim.status_within(RENDEZVOUS + SILENCE + ENDING)
        if status is None:
            return self.miss("the thawed process hangs")
        if self.has_trained(victim):
            return None
        error = victim.error()
        if self.plan.moment == "connecting" and error and error[1].startswith("[rendezvous] "):
            return None  # as one that comes too late
        if error is None or status != 1:
            return self.miss(f"the thawed process ended with status {status}, without a word")
        if {int(rank) for rank in RANK.findall(error[1])} - {victim.rank}:
            return self.miss(f"the thawed process accuses another: {error[1]}")
        if "stood still for" not in error[1]:
            return self.miss(f"the thawed process does not say that it stood still: {error[1]}")
        return None


def main():
    options = jobs.options_of(
        __doc__, seed={"default": "1", "help": "any word; chooses everything"}, first={"type": int, "default": 0},
        runs={"type": int, "default": 50}, processes={"type": int, "default": 3},
        slack={"type": float, "default": 0, "help": "seconds more for each limit, on a busy machine"},
        span={"type": float, "default": 0.4, "help": "seconds in which processes find each other, from the start"})
    options.digests = {}
    delays, misses = collections.defaultdict(list), 0
    print("run engine     signal moment        rank   after, s  load  told")
    for number in range(options.first, options.first + options.runs):
        its_plan = plan(options.seed, number, options.processes)
        outcome = Run(options, its_plan).run()
        after = "ended well" if outcome.delay is None else f"{outcome.delay:10.3f}"
        print(f"{number:3} {its_plan.engine:10} {str(its_plan):20} {its_plan.victim:4} {after} {jobs.load():>5}  "
              f"{outcome.told[:110]}", flush=True)
        if outcome.delay is not None:
            delays[str(its_plan), its_plan.engine].append(outcome.delay)
        if outcome.misses:
            misses += 1
            print(f"MISSED in run {number} of seed {options.seed}:", *outcome.misses, outcome.shown, sep="\n  ")
    print("\nfrom the signal to the last error, s")
    for (kind, engine), values in sorted(delays.items()):
        print(f"{kind:20} {engine:10} {len(values):3} runs, median {statistics.median(values):.3f}, "
              f"worst {max(values):.3f}")
    return jobs.summed(options.runs - misses, misses)


if __name__ == "__main__":
    sys.exit(main())
