#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What training in many processes would cost: a simulation of what the code does today, beside what it does not do.

usage: simulate_cluster.py                  prints the tables
       simulate_cluster.py --check FILE     fails unless the document has these tables, and says which it lacks
       simulate_cluster.py --write FILE     puts them there, each behind its line <!-- simulated: NAME -->

Agreement is a simulation of events: ranks come to their steps at times of their own (lognormal, seeded), say their words to
rank 0 or to their parent in a tree, which takes one message after the other and sends one after the other. Reductions,
start-up and memory are formulas. Nothing here was measured on more than one host: what the figures rest on stands beside
each of them below. Left out: congestion, the topology of the network, failures, looks at connections that find little.
"""

import argparse
import dataclasses
import math
import pathlib
import random
import statistics
import sys

RANKS = (2, 8, 64, 256, 1000, 10_000, 100_000)
SEED = 1

# --- sizes, as the code has them (the self-test compares)

MOST_MESSAGE = 65_000  # bytes of a message of the control channel
HEARD_HEAD = 2  # bytes of "heard" before the words; then a length of 4 bytes and the words of each rank
LENGTH = 4
WORDS_HEADER = 32
WORDS_DEVICE = 24
HEARTBEAT = 0.3  # seconds
LANES = 3  # connections of a pair of processes
PIECE = 256 << 10
WINDOW = 64 << 20
LEAST_WINDOW_PIECES, MOST_WINDOW_PIECES = 2, 64
SEQUENCES = 2
SHARED_SLOTS = 40
SHARED_PIECE = 2 << 20
BUCKET = 64 << 10
MEMBER_ENTRY = 60  # bytes of a member in the table of the rendezvous, with names of 20 letters
OTHER_DESCRIPTORS = 25  # of a process: doors, events, standard streams, libraries


# --- times

@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds, seconds a byte, bytes a second."""
    control_way: float = 90e-6  # measured: half a round trip of two processes of one host, less a message
    control_message: float = 20e-6  # rank 0, each message in or out; libzmq with CURVE alone, 64 peers: 13 to 39 us
    control_byte: float = 2e-9  # the same trial
    handshake: float = 0.6e-3  # the same trial: 1.2 ms for both ends
    key: float = 40e-6  # measured: of each rank, in each process
    frame: float = 8e-6  # network engine, each frame in or out: 64 KiB between two processes, bytes taken off
    stream: float = 1.8e9  # bytes/s each way that one thread moves by plain sockets: 64 MiB in 37 ms on a quiet machine
    cipher: float = 0.75e9  # bytes/s each way where one thread encrypts and decrypts at 1.5e9


@dataclasses.dataclass(frozen=True)
class Network:
    name: str
    bandwidth: float  # bytes/s of a process each way
    latency: float  # seconds, one small message, TCP; assumed


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    gradients: tuple  # bytes of each, in the order in which they become final

    @property
    def bytes(self):
        return sum(self.gradients)


COSTS = Costs()
NETWORKS = (Network("10 GbE", 1.25e9, 30e-6), Network("200 Gb/s", 25e9, 15e-6))


def mlp():
    return Model("MLP, 1 MB", tuple(4 * size for size in (10, 1280, 128, 32_768, 256, 200_704)))


def gpt2_small():
    width, vocabulary, positions = 768, 50_257, 1024
    block = [width, 4 * width * width, 4 * width, 4 * width * width, width, width, width, width * width, 3 * width,
             3 * width * width, width, width]
    sizes = [width, width] + 12 * block + [positions * width, vocabulary * width]
    return Model("GPT-2 small, 500 MB", tuple(4 * size for size in sizes))


def buckets(model, most):
    """Bytes of each: neighbours together up to `most`, as the engine's buckets are made."""
    sizes = []
    for size in model.gradients:
        if sizes and sizes[-1] + size <= most:
            sizes[-1] += size
        else:
            sizes.append(size)
    return sizes


# --- limits

def words(devices=1):
    return WORDS_HEADER + WORDS_DEVICE * devices


def heard(ranks, devices=1):
    """Bytes of the message in which rank 0 tells each rank what all have said."""
    return HEARD_HEAD + ranks * (LENGTH + words(devices))


def most_ranks(devices=1):
    return (MOST_MESSAGE - HEARD_HEAD) // (LENGTH + words(devices))


def window_bytes(ranks):
    """The most memory for what came from others and is not used yet."""
    pieces = min(max(WINDOW // PIECE // (SEQUENCES * ranks), LEAST_WINDOW_PIECES), MOST_WINDOW_PIECES)
    return SEQUENCES * (ranks - 1) * pieces * PIECE


def descriptors(ranks):
    """Of rank 0, which has a control connection to each rank beside those for gradients."""
    return (LANES + 1) * (ranks - 1) + OTHER_DESCRIPTORS


def most_ranks_of_descriptors(limit):
    return (limit - OTHER_DESCRIPTORS) // (LANES + 1) + 1


# --- stragglers

def lateness(uniform, sigma):
    """How much longer than the median a lognormal step takes, as a factor."""
    return math.exp(sigma * statistics.NormalDist().inv_cdf(uniform))


def slowest(ranks, sigma, draws=2001):
    """Mean over steps of the slowest rank's factor, where all steps have one median: the largest of n uniform numbers is
    distributed as u ** (1 / n)."""
    random_numbers = random.Random(SEED)
    tails = [-math.expm1(math.log(random_numbers.random() or 0.5) / ranks) for _ in range(draws)]
    return statistics.fmean(math.exp(-sigma * statistics.NormalDist().inv_cdf(tail)) for tail in tails)


# --- agreement

def serve(arrivals, each, start=0.0):
    """Time at which who takes one message after the other has taken all."""
    now = start
    for arrival in sorted(arrivals):
        now = max(now, arrival) + each
    return now


def agree(starts, fan_out, network, combined, costs=COSTS, devices=1):
    """Seconds from the last rank's words until the last rank hears of all. Rank i's parent is (i - 1) // fan_out: with a
    fan-out of all ranks that is the star of today. `combined`: a parent makes one word of its children's, so that messages
    stay small; else all see the words of all."""
    ranks = len(starts)
    way = costs.control_way + network.latency
    byte = costs.control_byte + 1 / network.bandwidth
    arrivals = [[] for _ in range(ranks)]
    below = [1] * ranks
    ready = list(starts)
    for rank in range(ranks - 1, -1, -1):
        if arrivals[rank]:
            ready[rank] = max(ready[rank], serve(arrivals[rank], costs.control_message))
        if rank > 0:
            parent = (rank - 1) // fan_out
            said = words(devices) * (1 if combined else below[rank])
            below[parent] += below[rank]
            arrivals[parent].append(ready[rank] + way + said * byte)
    told = words(devices) if combined else heard(ranks, devices)
    each = costs.control_message + told * byte
    hears = [0.0] * ranks
    hears[0] = ready[0]
    for rank in range(1, ranks):
        parent = (rank - 1) // fan_out
        turn = (rank - 1) % fan_out + 1
        hears[rank] = hears[parent] + turn * each + way
    return max(hears) - max(starts)


def agreement(ranks, fan_out, network, combined=False, step=0.1, sigma=0.02):
    random_numbers = random.Random(SEED)
    repeats = max(1, min(101, 20_000 // ranks))
    costs = []
    for _ in range(repeats):
        starts = [step * lateness(random_numbers.random() or 0.5, sigma) for _ in range(ranks)]
        costs.append(agree(starts, fan_out, network, combined))
    return statistics.fmean(costs)


def heartbeats(ranks):
    """Messages a second at rank 0, in and out."""
    return 2 * (ranks - 1) / HEARTBEAT


# --- reductions: seconds of a step's gradients, one device in each process

def rate(network, encrypted, costs):
    return min(network.bandwidth, costs.cipher if encrypted else costs.stream)


def direct(model, ranks, network, encrypted=False, bucket=BUCKET, costs=COSTS):
    """Today: slices to the owner of each share, results to all; a frame to each process that says what comes."""
    share = [size / ranks for size in buckets(model, bucket)]
    frames = sum(1 + 2 * max(1, math.ceil(each / PIECE)) for each in share) * (ranks - 1)
    return max(2 * frames * costs.frame,
               2 * model.bytes * (ranks - 1) / ranks / rate(network, encrypted, costs)) + 2 * network.latency


def ring(model, ranks, network, bucket=BUCKET, costs=COSTS):
    """Shares go round twice: two connections, bytes of the direct way, 2 (n - 1) steps one after the other."""
    steps = 2 * (ranks - 1)
    frames = sum(steps * max(1, math.ceil(size / ranks / PIECE)) for size in buckets(model, bucket))
    return max(2 * frames * costs.frame, steps / ranks * model.bytes / rate(network, False, costs)) + steps * (
        network.latency + 2 * costs.frame)


def tree(model, ranks, network, bucket=BUCKET, costs=COSTS):
    """Sums go up a tree of two children, in pieces, and down again: three connections, three times the bytes."""
    depth = math.ceil(math.log2(ranks))
    children = min(2, ranks - 1)
    frames = sum(2 * (children + 1) * max(1, math.ceil(size / PIECE)) for size in buckets(model, bucket))
    first = min(PIECE, max(buckets(model, bucket))) / rate(network, False, costs)
    return max(frames * costs.frame, (children + 1) * model.bytes / rate(network, False, costs)) + 2 * depth * (
        network.latency + 2 * costs.frame + first)


# --- tables

def figure(value, units):
    """Two digits, in the largest unit that leaves one before the point."""
    for name, size in units:
        if value >= size or name == units[-1][0]:
            number = value / size
            digits = 0 if number >= 9.95 else 1
            if number >= 99.5:
                number = float(f"{number:.2g}")
            return f"{number:,.{digits}f} {name}"
    raise AssertionError


def seconds(value):
    return figure(value, (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)))


def size(value):
    return figure(value, (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)))


def percent(value):
    return f"{float(f'{100 * value:.2g}'):,g}"


def table(heads, rows):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [heads, ["---"] * len(heads), *rows])


def agreement_table(network, ranks):
    rows = []
    for n in ranks:
        star = seconds(agreement(n, n, network))
        rows.append([f"{n:,}", size(heard(n)), star if n <= most_ranks() else f"({star})",
                     *(seconds(agreement(n, fan_out, network)) for fan_out in (16, 32)),
                     seconds(agreement(n, 16, network, combined=True))])
    return table(["ranks", "what each hears", "star (today)", "tree of 16", "tree of 32", "tree of 16, words combined"], rows)


def reduction_table(network, model, ranks):
    rows = [[f"{n:,}", seconds(direct(model, n, network)), seconds(direct(model, n, network, encrypted=True)),
             seconds(direct(model, n, network, bucket=64 << 20)), seconds(ring(model, n, network)),
             seconds(tree(model, n, network))] for n in ranks]
    return table(["ranks", "today, plain", "today, encrypted", "plain, `bucket_bytes` 64 MiB", "ring", "tree"], rows)


def process_table(ranks):
    rows = []
    for n in ranks:
        core = heartbeats(n) * COSTS.control_message
        table_of_members = n * n * MEMBER_ENTRY * (COSTS.control_byte + 1 / NETWORKS[0].bandwidth)
        rows.append([f"{n:,}", f"{LANES * (n - 1):,}", f"{LANES * n * (n - 1) // 2:,}", f"{descriptors(n):,}",
                     size(window_bytes(n)), f"{heartbeats(n):,.0f}", f"{percent(core)} %",
                     seconds(n * (COSTS.key + COSTS.handshake) + table_of_members)])
    return table(["ranks", "connections of a process", "of the job", "descriptors of rank 0", "window, at most",
                  "heartbeats a second at rank 0", "of a core there", "rank 0's work at the start"], rows)


def straggler_table(ranks):
    return table(["ranks", "σ = 1 %", "σ = 5 %", "σ = 20 %"],
                 [[f"{n:,}", *(f"{percent(slowest(n, sigma) - 1)} %" for sigma in (0.01, 0.05, 0.2))] for n in ranks])


def limit_table():
    return table(["devices of each process", "bytes of its words", "ranks, at most", "devices, at most"],
                 [[str(d), str(words(d)), f"{most_ranks(d):,}", f"{d * most_ranks(d):,}"] for d in (1, 2, 4, 8, 16)])


def tables(ranks=RANKS):
    """Each by its name."""
    made = {"words": limit_table(), "processes": process_table(ranks)}
    for network in NETWORKS:
        made[f"agreement, {network.name}"] = agreement_table(network, ranks)
    for network in NETWORKS:
        for model in (mlp(), gpt2_small()):
            made[f"reduction, {network.name}, {model.name}"] = reduction_table(network, model, ranks)
    return made | {"stragglers": straggler_table(ranks)}


# --- the document

def written(text, made):
    """The document with these tables behind their lines; ValueError for one that has no line there."""
    lines = text.split("\n")
    for name, content in made.items():
        mark = f"<!-- simulated: {name} -->"
        if mark not in lines:
            raise ValueError(f"no line {mark}")
        begin = lines.index(mark) + 1
        end = begin
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        lines[begin:end] = content.split("\n")
    return "\n".join(lines)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", metavar="FILE", type=pathlib.Path)
    action.add_argument("--write", metavar="FILE", type=pathlib.Path)
    options = parser.parse_args(arguments)
    made = tables()
    document = options.check or options.write
    if document is None:
        for name, content in made.items():
            print(f"{name}\n\n{content}\n")
        return 0
    text = document.read_text()
    try:
        whole = written(text, made)
    except ValueError as error:
        print(f"{document}: {error}", file=sys.stderr)
        return 1
    if options.write:
        document.write_text(whole)
    elif whole != text:
        stale = [name for name, content in made.items() if content not in text]
        print(f"{document}: other tables than those of tools/clusters/simulate_cluster.py: {', '.join(stale)}; "
              f"tools/clusters/simulate_cluster.py --write {document}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
