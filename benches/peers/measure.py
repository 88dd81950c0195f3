# SPDX-License-Identifier: Apache-2.0
"""Programs that are run in turn, and the ratios between them within each round."""

import json
import math
import pathlib
import statistics
import sys
import time
from dataclasses import dataclass, field

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

from programs import ProgramError, output_of  # noqa: E402
from progress_line import ProgressLine, left_of, time_text  # noqa: E402


@dataclass
class Variant:
    """One way to run one side: programs, which together give {what was measured: time} in each round."""

    side: str
    name: str
    programs: list
    rounds: list = field(default_factory=list)  # {} for those that it was not in
    running: bool = True  # in the next round

    def label(self):
        return f"{self.side}{', ' * bool(self.name)}{self.name}"

    def measures(self):
        return {what for program in self.programs for what in program.measures}

    def times(self, what):
        """Of each round, None where it has none."""
        return [found.get(what) for found in self.rounds]

    def median(self, what):
        return middle(self.times(what))


@dataclass
class Comparison:
    title: str
    unit: str
    rows: list  # what is measured
    ours: list
    peers: list
    parse: callable  # the output of a program as {what was measured: time}
    note: str
    wanted: dict = field(default_factory=dict)  # {side: {what: ratio}}
    shown: callable = str

    def narrow(self, pattern):
        """Leaves the peers that match, and what any of them measures."""
        self.peers = [peer for peer in self.peers if pattern.search(peer.name)]
        left = set().union(*(peer.measures() for peer in self.peers))
        self.rows = [what for what in self.rows if what in left]
        for ours in self.ours:
            ours.programs = [program for program in ours.programs if left.intersection(program.measures)]

    def sides_of(self, what):
        """The peers that measure it, in some variant."""
        return list(dict.fromkeys(variant.side for variant in self.peers if what in variant.measures()))


def middle(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def parse_lines(key, time):
    """Reads programs that print a line of JSON for each thing that they measure, whatever else they print."""
    def parse(output):
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return {line[key]: line[time] for line in lines}
    return parse


def figures_of(program, parse):
    """{what was measured: time}, all that the program is there for. Raises ProgramError, also where some are missing."""
    output = output_of(program)
    try:
        found = parse(output)
    except (ValueError, LookupError, TypeError) as error:
        raise ProgramError(f"its output is not understood: {type(error).__name__}: {error}") from error
    for what in program.measures:
        if not isinstance(found.get(what), (int, float)) or not 0 < found[what] < math.inf:
            raise ProgramError(f"no time of {what}: {found.get(what, 'nothing')}")
    return {what: found[what] for what in program.measures}


def order_of(comparison, turn):
    """Programs with their variants: those that measure the same follow each other, and every other round is reversed,
    so that neither side always goes first."""
    running = [variant for variant in comparison.ours + comparison.peers if variant.running]
    programs = [(variant, program) for variant in running for program in variant.programs]
    programs.sort(key=lambda each: comparison.rows.index(each[1].measures[0]))  # stable
    return programs[::-1] if turn % 2 else programs


class Course:
    """How many programs have run, and how long the others will about take if no more variants drop out."""

    def __init__(self, comparisons, rounds):
        self.rounds = {comparison.title: rounds for comparison in comparisons}  # that are to come
        self.comparisons = comparisons
        self.done, self.began, self.line = 0, time.monotonic(), ProgressLine()

    def begin_round(self, comparison, turn, rounds):
        self.rounds[comparison.title] -= 1
        self.say(f"{comparison.title}: round {turn + 1} of {rounds}")

    def say(self, text):
        self.line.clear()
        print(text, file=sys.stderr)

    def begin_program(self, variant, left_in_round):
        left = left_in_round + sum(self.rounds[each.title] * len(order_of(each, 0)) for each in self.comparisons)
        total, elapsed = self.done + left, time.monotonic() - self.began
        self.line.show(f"[{self.done}/{total}] {time_text(elapsed, left_of(self.done, total, elapsed), self.done, 'programs')}; "
                       f"running {variant.label()}")
        self.done += 1


def run_round(comparison, turn, course):
    for variant in comparison.ours + comparison.peers:
        variant.rounds.append({})
    programs = order_of(comparison, turn)
    try:
        for place, (variant, program) in enumerate(programs):
            course.begin_program(variant, len(programs) - place)
            try:
                variant.rounds[-1] |= figures_of(program, comparison.parse)
            except ProgramError as error:
                course.say(f"bench: {variant.label()}: {' '.join(map(str, program.command))}: {error}")
    finally:
        course.line.clear()


def is_contender(variant, peers):
    """True for who was within half of the best of its side somewhere, and for who lacks a figure, as by an accident."""
    mine = variant.rounds[-1]
    if variant.measures() - mine.keys():
        return True
    side = [other.rounds[-1] for other in peers if other.side == variant.side]
    return any(time <= 1.5 * min(found[what] for found in side if what in found) for what, time in mine.items())


def measure(comparison, rounds, course=None):
    """Yields after each round, whose figures the variants have. After the first, peers that are far behind drop out."""
    course = course or Course([comparison], rounds)
    for turn in range(rounds):
        course.begin_round(comparison, turn, rounds)
        run_round(comparison, turn, course)
        if turn == 0:
            contenders = [is_contender(peer, comparison.peers) for peer in comparison.peers]
            for peer, is_one in zip(comparison.peers, contenders):
                peer.running = is_one
        yield


def best_of(comparison, side, what):
    """The smallest median of those that are still running and have figures of half of the rounds: one lucky round is no
    median, and one that fails is no end."""
    running = [variant for variant in comparison.peers
               if variant.side == side and variant.running and variant.median(what) is not None]
    steady = [variant for variant in running if 2 * variant.times(what).count(None) <= len(variant.rounds)]
    return min(steady or running, key=lambda variant: variant.median(what), default=None)


def compare(comparison):
    """A row for each thing that was measured, each of our ways and each peer."""
    rows = []
    for what in comparison.rows:
        for ours in comparison.ours:
            for side in comparison.sides_of(what):
                peer = best_of(comparison, side, what)
                pairs = zip(ours.times(what), peer.times(what)) if peer else []
                ratios = [theirs / mine for mine, theirs in pairs if None not in (mine, theirs)]
                row = {"what": what, "ours": ours.side, "peer": side, "wanted": comparison.wanted.get(side, {}).get(what),
                       "ratios": ratios}
                if ratios:
                    row |= {"ours_median": ours.median(what), "variant": peer.name, "peer_median": peer.median(what),
                            "ratio": statistics.median(ratios)}
                rows.append(row)
    return rows


def markdown(comparison, rows, rounds):
    """A table of rows; a ratio of fewer rounds than were asked for says of how many."""
    lines = [f"### {comparison.title}", "", comparison.note, "",
             f"| | ours | {comparison.unit} | peer at its best | {comparison.unit} | peer / ours (rounds) | wanted |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        wanted = "" if row["wanted"] is None else f"{row['wanted']:g}"
        ratios = row["ratios"]
        if not ratios:
            lines.append(f"| {comparison.shown(row['what'])} | {row['ours']} | | {row['peer']} | | **no figure** | {wanted} |")
            continue
        if wanted:
            wanted += ", met" if row["ratio"] >= row["wanted"] else ", **missed**"
        few = f", {len(ratios)} of {rounds} rounds" * (len(ratios) < rounds)
        lines.append(f"| {comparison.shown(row['what'])} | {row['ours']} | {row['ours_median']:.3g} "
                     f"| {row['peer']}{': ' * bool(row['variant'])}{row['variant']} | {row['peer_median']:.3g} "
                     f"| **{row['ratio']:.2f}** ({min(ratios):.2f}–{max(ratios):.2f}{few}) | {wanted} |")
    return "\n".join(lines) + "\n"
