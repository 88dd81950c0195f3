#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two files of `tutti bench`, of programs with <tutti/bench.h>, or of Google Benchmark, and says which differences
are more than chance.

usage: tutti bench compare [--gate PERCENT] OLD NEW

Each bench's repetitions (--benchmark_repetitions=10) are two samples, whose medians are shown, and a two-sided
Mann-Whitney U test says how likely ranks as different as these are if both are alike: p, exact up to 40 repetitions in
all, ties included. With too few repetitions for any result to be unlikely, that is said instead. The test knows two runs,
not the machine: what drifted between them is a difference too.

--gate is for the CI of a program: the status is 1 if a bench is slower by more than so many percent and by more than chance,
by its ratio to a baseline where both files have one, which holds on another machine, else by its time; or if it allocates
more often; or if NEW has it not.

A file that is no path is looked for in runs/bench. The status is 0, or 2 for files that cannot be compared.
"""

import functools
import json
import math
import os
import pathlib
import statistics
import sys

LEVEL = 0.05
MOST_EXACT = 40
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
# Google Benchmark's own fields, and counters that only restate the time.
NOT_COUNTERS = {"family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads", "iterations",
                "real_time", "cpu_time", "bytes_per_second", "items_per_second", "FLOP/s", "element", "per_op"}


class Refused(Exception):
    pass


# --- the test

def doubled_ranks(values):
    """Twice the rank of each, from 2 on; equal values share the mean of their places."""
    order = sorted(values)
    first = {}
    for place, value in enumerate(order):
        first.setdefault(value, place)
    count = {value: order.count(value) for value in first}
    return [2 * first[value] + count[value] + 1 for value in values]


@functools.lru_cache(maxsize=None)
def rank_sums(ranks, chosen):
    """How many ways to choose so many of these ranks there are, by the sum of what is chosen."""
    ways = [{0: 1}] + [{} for _ in range(chosen)]
    for rank in ranks:
        for n in range(chosen, 0, -1):
            for total, count in ways[n - 1].items():
                ways[n][total + rank] = ways[n].get(total + rank, 0) + count
    return ways[chosen]


def exact_p(ranks, chosen, total):
    """The share of all choices whose sum is at least as far from the mean."""
    sums = rank_sums(tuple(sorted(ranks)), chosen)
    mean = chosen * sum(ranks) / len(ranks)
    distance = abs(total - mean)
    return sum(count for other, count in sums.items() if abs(other - mean) >= distance) / sum(sums.values())


def normal_p(ranks, chosen, total):
    """The same by the normal distribution, with the variance that ties leave."""
    n = len(ranks)
    mean = sum(ranks) / n
    variance = chosen * (n - chosen) / (n - 1) * sum((rank - mean) ** 2 for rank in ranks) / n
    if variance == 0:
        return 1.0
    return math.erfc(max(0.0, abs(total - chosen * mean) - 1.0) / math.sqrt(2 * variance))  # 1: half a rank, doubled


def mann_whitney_p(old, new):
    """Two-sided p of the Mann-Whitney U test."""
    ranks = doubled_ranks([*old, *new])
    total = sum(ranks[:len(old)])
    return (exact_p if len(ranks) <= MOST_EXACT else normal_p)(ranks, len(old), total)


def smallest_p(old_count, new_count):
    """What p is at least, whatever was measured: all of one sample below all of the other."""
    return min(1.0, 2 / math.comb(old_count + new_count, old_count))


# --- files

def from_caller(name):
    """A path as the caller wrote it: ./dev runs in the folder of the repository."""
    return pathlib.Path(os.environ.get("TUTTI_CALLED_FROM", ".")) / name


def find_file(name):
    """A path as the caller wrote it, or the name of a file in runs/bench."""
    for path in (from_caller(name), pathlib.Path("runs/bench") / name, pathlib.Path("runs/bench") / f"{name}.json"):
        if path.is_file():
            return path
    raise Refused(f"there is no file {name}, here or in runs/bench")


def read(path):
    try:
        content = json.loads(path.read_text())
        context = dict(content["context"])
        samples = samples_of(content["benchmarks"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{path} is not a file of benches: {error!r}") from error
    for (name, quantity), values in samples.items():
        if quantity == "time" and not all(0 < value < math.inf for value in values):
            raise Refused(f"{path}: {name} has a time that is none: {min(values)}")
    return context, samples


def samples_of(benchmarks):
    """By bench and quantity, the values of all repetitions. Times are in seconds."""
    samples = {}
    for bench in benchmarks:
        if bench.get("run_type", "iteration") != "iteration" or bench.get("error_occurred"):
            continue
        values = {key: value for key, value in bench.items()
                  if key not in NOT_COUNTERS and isinstance(value, (int, float)) and not isinstance(value, bool)}
        for quantity, value in {"time": bench["real_time"] * SECONDS[bench["time_unit"]], **values}.items():
            samples.setdefault((bench.get("run_name", bench["name"]), quantity), []).append(value)
    return samples


def describe(label, path, context):
    commit = context.get("label") or context.get("commit", "unknown")[:7]
    if commit == "unknown":
        commit = f"tutti {context['tutti']}" if "tutti" in context else "unknown commit"
    commit += ", changed" if context.get("changed") else ""
    machine = f"{context.get('processor', 'unknown processor')}, {context.get('cores', context.get('num_cpus', '?'))} cores"
    unfinished = "" if context.get("complete", True) else ", incomplete"
    return f"{label}  {path}: {commit}, {context.get('time', context.get('date', 'unknown time'))}, {machine}{unfinished}"


# --- the table

def time_text(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def compare(old, new):
    """Rows of what both have, and how many of them could be tested and differ."""
    rows, tested, differing = [], 0, 0
    for key in [key for key in old if key in new]:
        if len({*old[key], *new[key]}) == 1:  # a size, a count
            continue
        before, after = statistics.median(old[key]), statistics.median(new[key])
        text = time_text if key[1] == "time" else "{:.4g}".format
        row = [*key, text(before), text(after), f"{after / before:.3f}" if before else "", ""]
        if smallest_p(len(old[key]), len(new[key])) >= LEVEL:
            row.append(f"too few repetitions: {len(old[key])} and {len(new[key])}")
        else:
            tested += 1
            p = mann_whitney_p(old[key], new[key])
            row[5] = f"{p:.2g}"
            row.append("differs" if p < LEVEL else "")
            differing += p < LEVEL
        rows.append(row)
    return rows, tested, differing


def has_baseline(samples, name):
    """Whether its ratio is that to a baseline, and no counter of its own that is called so."""
    return (name, "ratio") in samples and (name, "baseline_seconds") in samples


def gate_faults(old, new, percent):
    """What a gate of so many percent holds against NEW, a line each."""
    faults = []
    for name in dict.fromkeys(name for name, _ in old):
        if (name, "time") not in new:
            faults.append(f"{name}: NEW has it not")
            continue
        for quantity in ("array_allocations", "heap_allocations"):
            before, after = old.get((name, quantity)), new.get((name, quantity))
            if before and not after:
                faults.append(f"{name}: NEW has no {quantity}")
            elif before and max(after) > max(before):
                faults.append(f"{name}: {quantity} {max(before):g}, now {max(after):g}")
        if has_baseline(old, name) and not has_baseline(new, name):
            faults.append(f"{name}: NEW has no baseline")
            continue
        quantity = "ratio" if has_baseline(old, name) else "time"
        before, after = old[name, quantity], new[name, quantity]
        if smallest_p(len(before), len(after)) >= LEVEL:
            raise Refused(f"{name} has too few repetitions for a gate: {len(before)} and {len(after)}")
        slower = statistics.median(after) / statistics.median(before) - 1
        p = mann_whitney_p(before, after)
        if slower > percent / 100 and p < LEVEL:
            faults.append(f"{name}: slower by {100 * slower:.1f} % in its {quantity} (p = {p:.2g})")
    return faults


def show(rows):
    rows = [["bench", "quantity", "old", "new", "new/old", "p", ""], *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(7)]
    for row in rows:
        cells = [text.ljust(width) if i in (0, 1, 6) else text.rjust(width)
                 for i, (text, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def parse(arguments):
    """OLD, NEW, and the percentage of a gate or None."""
    gate, files = None, []
    rest = iter(arguments)
    for word in rest:
        if word == "--gate" or word.startswith("--gate="):
            value = word.partition("=")[2] if "=" in word else next(rest, "")
            try:
                gate = float(value)
            except ValueError:
                gate = math.nan
            if not 0 <= gate < math.inf:
                raise Refused(f"--gate takes a percentage from 0 on, not '{value}'")
        elif word.startswith("-"):
            raise Refused(f"unknown option '{word}'")
        else:
            files.append(word)
    if len(files) != 2:
        raise Refused(f"two files, OLD and NEW, not {len(files)}")
    return files, gate


def main(arguments):
    if "-h" in arguments or "--help" in arguments:
        print(__doc__.strip())
        return 0
    try:
        names, gate = parse(arguments)
        paths = [find_file(name) for name in names]
        (old_context, old), (new_context, new) = map(read, paths)
        rows, tested, differing = compare(old, new)
        if gate is not None and not old_context.get("complete", True):
            raise Refused(f"{paths[0]} is of a run that did not end")
        if gate is not None and old_context.get("ratio_of") != new_context.get("ratio_of"):
            raise Refused("ratios of OLD and NEW are not those of one clock: --processor-time")
        faults = gate_faults(old, new, gate) if gate is not None else []
        if not old.keys() & new.keys():
            raise Refused("the two files have no figure in common")
    except Refused as refused:
        print(f"bench compare: {refused}", file=sys.stderr)
        return 2
    print(describe("OLD", paths[0], old_context))
    print(describe("NEW", paths[1], new_context))
    if any(old_context.get(key) != new_context.get(key) for key in ("processor", "cores")):
        print("These are different machines: differences need not be the program's.")
    print()
    if rows:
        show(rows)
    else:
        print("all figures of both are the same")
    print()
    names_of_old, names_of_new = ({name for name, _ in samples} for samples in (old, new))
    for label, missing in (("OLD", names_of_old - names_of_new), ("NEW", names_of_new - names_of_old)):
        if missing:
            print(f"only in {label}: {', '.join(sorted(missing))}")
    if tested:
        print(f"{differing} of {tested} differ at p < {LEVEL} (two-sided Mann-Whitney U); by chance it would be about "
              f"{LEVEL * tested:.1f}")
    if tested < len(rows):
        print(f"{len(rows) - tested} have too few repetitions for any difference to be told from chance: "
              "run both with --benchmark_repetitions=10")
    for fault in faults:
        print(f"gate of {gate:g} %: {fault}", file=sys.stderr)
    if gate is not None and not faults:
        ratios = sum(has_baseline(old, name) for name in names_of_old)
        print(f"gate of {gate:g} %: passed, {ratios} by their ratios and {len(names_of_old) - ratios} by their times")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
