#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of two processes with a device each, beside one process with two devices, and beside PyTorch's
DistributedDataParallel where a Python with torch is given. All run by turns; ratios are medians of the rounds' own.

process_steps.py BENCH [--python PYTHON] [--rounds N] [--models REGEX]: prints a table in Markdown. BENCH is the program
process_steps (benches/process_steps.cpp).
"""

import argparse
import json
import os
import pathlib
import re
import secrets
import socket
import statistics
import subprocess
import sys

STEPS = {"mlp_4x8_10": 3000, "mlp_784_512_512_10": 300, "mlp_784_4x1024_10": 20, "gpt_4x128": 20}
SECONDS_PER_RUN = 300
HERE = pathlib.Path(__file__).parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def run(command, ranks, variables):
    """Milliseconds of a step; a rank that fails ends the comparison."""
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                  env=os.environ | {name: value(rank) for name, value in variables.items()})
                 for rank in range(ranks)]
    try:
        outputs = [process.communicate(timeout=SECONDS_PER_RUN)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(process.returncode != 0 for process in processes):
        sys.exit(f"{' '.join(command)} has failed")
    return json.loads(outputs[0])["ms"]


def variables_of_ranks():
    port, secret = free_port(), secrets.token_hex(16)
    return {"RANK": str, "WORLD_SIZE": lambda _: "2", "LOCAL_RANK": str, "LOCAL_WORLD_SIZE": lambda _: "2",
            "MASTER_ADDR": lambda _: "127.0.0.1", "MASTER_PORT": lambda _: port, "TUTTI_SECRET": lambda _: secret}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", type=pathlib.Path)
    parser.add_argument("--python", help="one that can import torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default=".")
    options = parser.parse_args()
    bench = str(options.bench.resolve())
    header = ["model", "1 x 2, ms", "2 x 1, ms", "2 x 1 / 1 x 2 (rounds)"]
    header += ["DDP, ms", "DDP / 2 x 1 (rounds)", "DDP / 1 x 2 (rounds)"] if options.python else []
    print("| " + " | ".join(header) + " |\n|" + " --- |" * len(header))
    for model in (name for name in STEPS if re.search(options.models, name)):
        steps = str(STEPS[model])
        threads, processes, ddp = [], [], []
        for _ in range(options.rounds):
            threads.append(run([bench, model, "2", steps], 1, {}))
            processes.append(run([bench, model, "1", steps], 2, variables_of_ranks()))
            if options.python:
                ddp.append(run([options.python, str(HERE / "ddp_steps.py"), model, steps], 2, variables_of_ranks()))

        def milliseconds(times):
            return f"{statistics.median(times):.3g}"

        def ratio(ours, theirs):
            ratios = sorted(a / b for a, b in zip(ours, theirs))
            return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"

        row = [model, milliseconds(threads), milliseconds(processes), ratio(processes, threads)]
        row += [milliseconds(ddp), ratio(ddp, processes), ratio(ddp, threads)] if options.python else []
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
