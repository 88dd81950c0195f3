#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Tutti's benches and those of other libraries in turn, and compares them within each round.

The first round runs every variant of every peer (algorithm, settings); later rounds those that were within half of
the best at some size. The best variant is the one with the smallest median over its rounds, and a ratio is the median
of the rounds' ratios. Prints Markdown; writes the same and all raw figures as JSON beside it.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

SIZES = [1 << 20, 4 << 20, 16 << 20, 64 << 20]
OF_PROCESSES = {64 << 10: 5.0, 1 << 20: 5.0, 4 << 20: 3.0, 16 << 20: 3.0, 64 << 20: 3.5}  # wanted, beside Open MPI
MODELS = {"mlp_784_512_512_10": (10, 20), "mlp_784_4x1024_10": (6, 3)}  # blocks and steps of libtorch's run
SECONDS_PER_RUN = 300  # several times what the slowest takes on a quiet machine


@dataclass
class Variant:
    """One way to run one side; a run gives {what was measured: time}."""

    side: str
    name: str
    command: list
    environment: dict = field(default_factory=dict)


@dataclass
class Comparison:
    title: str
    unit: str
    ours: list
    peers: list
    parse: callable
    shown: callable
    targets: dict
    note: str


def run(variant, parse):
    """What one run measured; empty when it failed or ran out of time, which a peer may."""
    process = subprocess.Popen(variant.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, env=os.environ | variant.environment)
    try:
        output, errors = process.communicate(timeout=SECONDS_PER_RUN)
    except subprocess.TimeoutExpired:
        output, errors = "", "out of time"
    finally:  # also when we are told to end
        running = process.poll() is None
        try:
            os.killpg(process.pid, signal.SIGKILL)  # the session that was started for it, children that are left too
        except ProcessLookupError:
            pass
        if running:
            process.communicate()
    if process.returncode != 0:
        print(f"compare: {variant.side}, {variant.name}: {errors.strip()[:300]}", file=sys.stderr)
        return {}
    return parse(variant, output)


def parse_all_reduce(variant, output):
    if variant.side.startswith("Tutti"):
        return {int(re.search(r"/bytes:(\d+)/", bench["name"])[1]): bench["us"]
                for bench in json.loads(output)["benchmarks"]}
    return {line["bytes"]: line["us"] for line in map(json.loads, output.splitlines())}


def parse_step(variant, output):
    if variant.side.startswith("Tutti"):
        found = json.loads(output)["benchmarks"]
        return {model: bench["sync_ms"] for bench in found for model in MODELS if f"/{model}/" in bench["name"]}
    return {line["model"]: line["ms"] for line in map(json.loads, output.splitlines())}


def google_benchmark(program, pattern):
    return [program, f"--benchmark_filter={pattern}", "--benchmark_format=json"]


def all_reduce(folder, written):
    sizes = "|".join(map(str, SIZES))
    bench = str(folder / "distributed_bench")
    ours = [Variant(f"Tutti, {label}", "", google_benchmark(bench, f"{name}/bytes:({sizes})/written:{written}/"))
            for label, name in (("engine", "all_reduce_communicator"), ("server", "all_reduce_server"))]
    return Comparison(
        title=f"All-reduce of f32, each buffer just {'written by its rank' if written else 'reduced before'}",
        unit="µs", ours=ours, peers=gloo(folder, written) + open_mpi(folder, written), parse=parse_all_reduce,
        shown=size_text, targets={"Gloo": dict.fromkeys(SIZES, 7.0),
                                                        "Open MPI": dict.fromkeys(SIZES, 2.5)},
        note="Ours is one process with two threads; theirs are two processes. In place, buffers that stay; each rank "
             "on a core; a meeting before each call, not timed; until the result is in rank 0's buffer.")


def all_reduce_of_processes(folder):
    bench = str(folder / "distributed_bench")
    return Comparison(
        title="All-reduce of f32 between two processes, each buffer just reduced before", unit="µs",
        ours=[Variant("Tutti, shared memory", "", google_benchmark(bench, "all_reduce_shared_memory"))],
        peers=gloo(folder, 0) + open_mpi(folder, 0), parse=parse_all_reduce, shown=size_text,
        targets={"Gloo": OF_PROCESSES, "Open MPI": OF_PROCESSES},
        note="Two processes each, on a core each; in place, buffers that stay (ours in shared memory); a meeting before "
             "each call, not timed; until the result is in rank 0's buffer.")


def size_text(size):
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def gloo(folder, written):
    return [Variant("Gloo", how, [str(folder / "peers/gloo_all_reduce"), *how.split(), str(written)])
            for how in ("ring block bound", "ring block free", "bcube block bound", "ring_chunked block bound",
                        "ring_chunked poll bound", "halving_doubling block bound", "halving_doubling poll bound")]


def open_mpi(folder, written):
    vader = ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"]
    tuned = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm"]
    settings = {
        "as it comes": [],
        "recursive doubling": [*vader, *tuned, "3"],
        "ring": [*vader, *tuned, "4"],
        "segmented ring": [*vader, *tuned, "5"],
        "Rabenseifner": [*vader, *tuned, "6"],
        "Rabenseifner, copies in and out": [*vader, "--mca", "btl_vader_single_copy_mechanism", "none", *tuned, "6"],
    }
    # The ranks bind themselves. In a container mpirun is often run as root, which it wants to be told.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    start = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", "--timeout", str(SECONDS_PER_RUN - 10)]
    program = str(folder / "peers/mpi_all_reduce")
    return [Variant("Open MPI", name, [*start, *options, program, name, str(written)], root)
            for name, options in settings.items()]


def core_types():
    """Kernels of OpenBLAS that may suit this processor; Debian's does not know recent ones."""
    flags = set()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            flags = set(line.split())
    found = [("Cooperlake", "avx512_bf16"), ("SkylakeX", "avx512f"), ("Haswell", "avx2")]
    fitting = [name for name, flag in found if flag in flags]
    return list(dict.fromkeys(fitting[:1] + fitting[-1:]))


def training_step(folder):
    ours = Variant("Tutti, GradientSync", "", google_benchmark(str(folder / "training_bench"), "two_devices/mlp"))
    one_thread = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    keep_memory = {"MALLOC_TRIM_THRESHOLD_": str(4 << 30), "MALLOC_TOP_PAD_": str(256 << 20),
                   "MALLOC_MMAP_THRESHOLD_": str(4 << 30)}
    peers = []
    for cores in core_types() or [""]:
        for how in ("1 25 views bound", "1 25 taken bound", "1 25 copied bound", "25 25 views bound",
                    "25 25 taken bound", "1 25 taken free"):
            script = " && ".join(f"{folder}/peers/torch_reducer {model} {blocks} {steps} {how}"
                                 for model, (blocks, steps) in MODELS.items())
            peers.append(Variant("libtorch's Reducer", f"{how}, {cores}", ["sh", "-c", script],
                                 one_thread | keep_memory | {"OPENBLAS_CORETYPE": cores}))
    return Comparison(
        title="Training step on two ranks of one thread", unit="ms", ours=[ours], peers=peers, parse=parse_step,
        shown=lambda model: model,
        targets={"libtorch's Reducer": {"mlp_784_4x1024_10": 1.4, "mlp_784_512_512_10": 2.5}},
        note="Ours: two devices of one process. libtorch: two processes over Gloo; a variant names the first and "
             "further buckets in MB, what becomes of gradients, whether ranks are bound, and OpenBLAS's kernels.")


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
    rows = []
    for what in comparison.targets[next(iter(comparison.targets))]:
        for ours in comparison.ours:
            mine = rounds_of(ours, results, what)
            for side, targets in comparison.targets.items():
                peer = best_of(comparison, side, results, what)
                theirs = rounds_of(peer, results, what) if peer else []
                ratios = [b / a for a, b in zip(mine, theirs) if a and b]
                row = {"what": what, "ours": ours.side, "peer": side, "target": targets[what], "ratios": ratios}
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
        if not row["ratios"]:
            lines.append(f"| {comparison.shown(row['what'])} | {row['ours']} | | {row['peer']} | | **no figure** "
                         f"| {row['target']:g} |")
            continue
        met = "met" if row["ratio"] >= row["target"] else "**missed**"
        lines.append(f"| {comparison.shown(row['what'])} | {row['ours']} | {row['ours_median']:.4g} "
                     f"| {row['peer']}: {row['variant']} | {row['peer_median']:.4g} "
                     f"| **{row['ratio']:.2f}** ({min(row['ratios']):.2f}–{max(row['ratios']):.2f}) "
                     f"| {row['target']:g}, {met} |")
    return "\n".join(lines) + "\n"


def busy_cores(seconds=3.0):
    """How many cores others use while we sleep. Not the load average, which remembers the build before."""
    def idle():
        fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        return int(fields[3]) + int(fields[4])
    before = idle()
    time.sleep(seconds)
    return max(0.0, os.cpu_count() - (idle() - before) / os.sysconf("SC_CLK_TCK") / seconds)


def machine():
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    return {"date": datetime.date.today().isoformat(), "processor": model, "cores": os.cpu_count(),
            "busy": round(busy_cores(), 2), "nice": os.nice(0)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="benches folder of a build with -Dpeers=true")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/bench"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--variants", default="", help="regular expression: only the peers' variants that match")
    parser.add_argument("--only", choices=["all_reduce", "processes", "step"])
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds wants 1 at least")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = options.folder.resolve()
    comparisons = {"all_reduce": [all_reduce(folder, 0), all_reduce(folder, 1)],
                   "processes": [all_reduce_of_processes(folder)], "step": [training_step(folder)]}
    record = {"machine": machine(), "rounds": options.rounds, "comparisons": []}
    options.out.mkdir(parents=True, exist_ok=True)
    for name, chosen in comparisons.items():
        for comparison in chosen if options.only in (None, name) else []:
            comparison.peers = [peer for peer in comparison.peers if re.search(options.variants, peer.name)]
            record["comparisons"].append({})
            for results in measure(comparison, options.rounds):
                record["comparisons"][-1] = {
                    "title": comparison.title, "unit": comparison.unit, "rows": compare(comparison, results),
                    "raw": [{"side": variant.side, "variant": variant.name, "rounds": results[id(variant)]}
                            for variant in comparison.ours + comparison.peers]}
                write(options.out, record, comparisons)
    print((options.out / "peers.md").read_text())
    print(f"wrote {options.out}/peers.json and peers.md", file=sys.stderr)
    return 0 if all(row["ratios"] for found in record["comparisons"] for row in found["rows"]) else 1


def write(folder, record, comparisons):
    """After each round: the next may be interrupted."""
    before = record["machine"]
    text = (f"{before['date']}, {before['processor']}, {before['cores']} cores, {record['rounds']} rounds, nice "
            f"{before['nice']}; others used {before['busy']} cores before the first.\n")
    if before["busy"] > 0.1 * before["cores"]:
        text += "\n**Others were using this machine: these figures prove nothing.**\n"
    by_title = {comparison.title: comparison for chosen in comparisons.values() for comparison in chosen}
    for found in record["comparisons"]:
        text += "\n" + markdown(by_title[found["title"]], found["rows"])
    (folder / "peers.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    (folder / "peers.md").write_text(text)


if __name__ == "__main__":
    sys.exit(main())
