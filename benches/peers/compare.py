#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Tutti's benches and those of other libraries in turn, and compares them within each round.

A round runs what measures the same one after the other, each second round backwards. The first one has every variant of
every peer (algorithm, settings), later ones those that were within half of the best somewhere, or failed. The best
variant is the one with the smallest median over its rounds, at least half of all, and a ratio is the median of the
rounds' ratios. Prints Markdown; writes the same and all raw figures as JSON beside it.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import sys
import time

from comparisons import PARTS
from measure import Course, compare, markdown, measure
from programs import exit_on_signals


def busy_cores(seconds=3.0):
    """How many cores others use while we sleep. Not the load average, which remembers the build before."""
    def idle():
        fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        return int(fields[3]) + int(fields[4])
    before = idle()
    time.sleep(seconds)
    return max(0.0, os.cpu_count() - (idle() - before) / os.sysconf("SC_CLK_TCK") / seconds)


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.*)", text, re.MULTILINE)
    flags = re.search(r"^flags\s*:(.*)", text, re.MULTILINE)
    level = next((name for name, flag in (("AVX-512 with bf16", "avx512_bf16"), ("AVX-512", "avx512f"), ("AVX2", "avx2"))
                  if flags and flag in flags[1].split()), "")
    return {"date": datetime.date.today().isoformat(), "processor": model[1] if model else platform.machine(),
            "instructions": level, "cores": os.cpu_count(), "busy": round(busy_cores(), 2), "nice": os.nice(0)}


def write(folder, record, comparisons):
    """After each round: the next may be interrupted."""
    before = record["machine"]
    text = (f"{before['date']}, {before['processor']} ({before['instructions']}), {before['cores']} cores, "
            f"{record['rounds']} rounds, nice {before['nice']}; others used {before['busy']} cores before the first.\n")
    if before["busy"] > 0.1 * before["cores"]:
        text += "\n**Others were using this machine: these figures prove nothing.**\n"
    by_title = {comparison.title: comparison for comparison in comparisons}
    for found in record["comparisons"]:
        text += "\n" + markdown(by_title[found["title"]], found["rows"], record["rounds"])
    (folder / "peers.json").write_text(json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    (folder / "peers.md").write_text(text)


def regular_expression(text):
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {error}") from error


def from_caller(text):
    """A path as the caller wrote it: ./dev runs in the folder of the repository."""
    return pathlib.Path(os.environ.get("TUTTI_CALLED_FROM", "."), text)


def options_of(parser):
    """The options, as what they mean. Words that mean nothing are an error."""
    parser.add_argument("folder", type=pathlib.Path, help=argparse.SUPPRESS)  # benches of a build with -Dpeers=true
    parser.add_argument("--peers", action="store_true", help=argparse.SUPPRESS)  # what ./dev was told
    parser.add_argument("--torch", default="python3", help=argparse.SUPPRESS)  # a Python that can import torch
    parser.add_argument("--groups", action="store_true", help=argparse.SUPPRESS)  # of tools/setup.sh: only prints them
    parser.add_argument("--only", choices=list(PARTS), help="one part; without it all")
    parser.add_argument("--rounds", type=int, default=7, help="each of all programs in turn (7)")
    parser.add_argument("--variants", type=regular_expression, default="", metavar="REGEX",
                        help="only the peers' variants that match, and what they measure")
    parser.add_argument("--models", type=regular_expression, default="", metavar="REGEX",
                        help="only these models (parts step, memory and devices)")
    parser.add_argument("--threads", default="1,2", metavar="LIST", help="for each of these numbers, with commas between them (part step; 1,2)")
    parser.add_argument("--types", default="f32,bf16", metavar="LIST", help="for each of these, with commas between them (parts step and memory; f32,bf16)")
    parser.add_argument("--output", type=from_caller, default=pathlib.Path("runs/bench"), metavar="FOLDER",
                        help="where peers.md and peers.json go (runs/bench)")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds wants 1 at least")
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", options.threads):
        parser.error("--threads wants numbers, as in 1,2")
    options.threads = [int(word) for word in options.threads.split(",")]
    options.types = options.types.split(",")
    if not set(options.types) <= {"f32", "bf16"}:
        parser.error("--types wants f32, bf16 or f32,bf16")
    options.folder = options.folder.resolve()
    options.torch = os.path.abspath(options.torch) if "/" in options.torch else options.torch
    return options


def main():
    parser = argparse.ArgumentParser(prog="./dev bench --peers", description=__doc__.splitlines()[0] +
                                     " Installs what it compares with: Gloo, Open MPI, and PyTorch in build/, about 3 GB.")
    options = options_of(parser)
    comparisons = [found for name, part in PARTS.items() if options.only in (None, name) for found in part(options)]
    for comparison in comparisons:
        comparison.narrow(options.variants)
    comparisons = [comparison for comparison in comparisons if comparison.rows]
    if not comparisons:
        parser.error("nothing is left to compare: see --models and --variants")
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"cannot make the folder {options.output}: {error.strerror}")
    if options.groups:
        print("torch" if any("PyTorch" in peer.side for each in comparisons for peer in each.peers) else "")
        return 0
    exit_on_signals()
    record = {"machine": machine(), "rounds": options.rounds, "comparisons": []}
    course = Course(comparisons, options.rounds)
    for comparison in comparisons:
        record["comparisons"].append({})
        for _ in measure(comparison, options.rounds, course):
            record["comparisons"][-1] = {
                "title": comparison.title, "unit": comparison.unit, "rows": compare(comparison),
                "raw": [{"side": variant.side, "variant": variant.name, "rounds": variant.rounds}
                        for variant in comparison.ours + comparison.peers]}
            write(options.output, record, comparisons)
    print((options.output / "peers.md").read_text())
    print(f"wrote {options.output}/peers.json and peers.md", file=sys.stderr)
    return 0 if all(row["ratios"] for found in record["comparisons"] for row in found["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
