# SPDX-License-Identifier: Apache-2.0
"""Programs that are run in turn, and the ratios between them within each round."""

import json
import os
import secrets
import signal
import socket
import statistics
import subprocess
import sys
from dataclasses import dataclass, field


@dataclass
class Program:
    """One program, in as many ranks as it has; what rank 0 prints is read."""

    command: list
    ranks: int = 1
    environment: dict = field(default_factory=dict)
    seconds: int = 300  # several times what the slowest takes on a quiet machine


@dataclass
class Variant:
    """One way to run one side: programs, which together give {what was measured: time}."""

    side: str
    name: str
    programs: list


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

    def peer_sides(self):
        return list(dict.fromkeys(variant.side for variant in self.peers))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def variables_of_ranks(ranks):
    """What a launcher would set, for each rank."""
    port, secret = free_port(), secrets.token_hex(16)
    return [{"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks),
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TUTTI_SECRET": secret} for rank in range(ranks)]


def output_of(program, name):
    """What rank 0 printed; empty when a rank failed or ran out of time, which a peer may."""
    variables = variables_of_ranks(program.ranks) if program.ranks > 1 else [{}]
    processes = [subprocess.Popen(program.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  start_new_session=True, env=os.environ | program.environment | own)
                 for own in variables]
    outputs = []
    try:
        for process in processes:
            outputs.append(process.communicate(timeout=program.seconds))
    except subprocess.TimeoutExpired:
        outputs.append(("", "out of time"))
    finally:  # also when we are told to end
        for process in processes:
            running = process.poll() is None
            try:
                os.killpg(process.pid, signal.SIGKILL)  # the session that was started for it, children that are left too
            except ProcessLookupError:
                pass
            if running:
                process.communicate()
    if any(process.returncode != 0 for process in processes):
        errors = next((errors for _, errors in reversed(outputs) if errors.strip()), "")
        print(f"compare: {name}: {' '.join(map(str, program.command))}: ...{errors.strip()[-300:]}", file=sys.stderr)
        return ""
    return outputs[0][0]


def run(variant, parse):
    """What one run measured: nothing of the programs that failed."""
    found = {}
    for program in variant.programs:
        output = output_of(program, f"{variant.side}, {variant.name}")
        if output:
            found |= parse(output)
    return found


def contenders(variants, results):
    """Who was within half of the best of its side somewhere, and who failed: it may have been an accident."""
    kept = []
    for variant in variants:
        mine = results[id(variant)][-1]
        if not mine:
            kept.append(variant)
            continue
        best = {what: min(results[id(other)][-1].get(what, float("inf")) for other in variants
                          if other.side == variant.side) for what in mine}
        if any(mine[what] <= 1.5 * best[what] for what in mine):
            kept.append(variant)
    return kept


def measure(comparison, rounds):
    """After each round {id of variant: what each round measured, nothing for rounds that it was not in}."""
    everyone = comparison.ours + comparison.peers
    results = {id(variant): [] for variant in everyone}
    running = everyone
    for turn in range(rounds):
        print(f"{comparison.title}: round {turn + 1} of {rounds}", file=sys.stderr)
        for variant in everyone:
            results[id(variant)].append(run(variant, comparison.parse) if variant in running else {})
        if turn == 0:
            running = comparison.ours + contenders(comparison.peers, results)
        yield results


def rounds_of(variant, results, what):
    return [found.get(what) for found in results[id(variant)]]


def middle(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def best_of(comparison, side, results, what):
    """Of those that ran in the last round, if any: one lucky round is no median."""
    variants = [variant for variant in comparison.peers if variant.side == side]
    measured = [variant for variant in variants if middle(rounds_of(variant, results, what)) is not None]
    lasting = [variant for variant in measured if rounds_of(variant, results, what)[-1] is not None]
    return min(lasting or measured, key=lambda variant: middle(rounds_of(variant, results, what)), default=None)


def compare(comparison, results):
    """A row for each thing that was measured, each of our ways and each peer."""
    rows = []
    for what in comparison.rows:
        for ours in comparison.ours:
            mine = rounds_of(ours, results, what)
            for side in comparison.peer_sides():
                peer = best_of(comparison, side, results, what)
                theirs = rounds_of(peer, results, what) if peer else []
                ratios = [b / a for a, b in zip(mine, theirs) if a and b]
                row = {"what": what, "ours": ours.side, "peer": side, "wanted": comparison.wanted.get(side, {}).get(what),
                       "ratios": ratios}
                if ratios:
                    row |= {"ours_median": middle(mine), "variant": peer.name, "peer_median": middle(theirs),
                            "ratio": statistics.median(ratios)}
                rows.append(row)
    return rows


def markdown(comparison, rows):
    lines = [f"### {comparison.title}", "", comparison.note, "",
             f"| | ours | {comparison.unit} | peer at its best | {comparison.unit} | peer / ours (rounds) | wanted |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        wanted = "" if row["wanted"] is None else f"{row['wanted']:g}"
        if not row["ratios"]:
            lines.append(f"| {comparison.shown(row['what'])} | {row['ours']} | | {row['peer']} | | **no figure** | {wanted} |")
            continue
        if wanted:
            wanted += ", met" if row["ratio"] >= row["wanted"] else ", **missed**"
        lines.append(f"| {comparison.shown(row['what'])} | {row['ours']} | {row['ours_median']:.3g} "
                     f"| {row['peer']}{': ' * bool(row['variant'])}{row['variant']} | {row['peer_median']:.3g} "
                     f"| **{row['ratio']:.2f}** ({min(row['ratios']):.2f}–{max(row['ratios']):.2f}) | {wanted} |")
    return "\n".join(lines) + "\n"


def parse_lines(key, time):
    """Of programs that print a line of JSON for each thing that they measure."""
    def parse(output):
        return {line[key]: line[time] for line in map(json.loads, output.splitlines())}
    return parse
