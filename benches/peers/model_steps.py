#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of one device beside PyTorch, in each of its ways: eager, with channels last for images, compiled.

model_steps.py BENCH --python PYTHON [--rounds N] [--models REGEX] [--threads N] [--types f32,bf16] [--output FILE]:
prints a table in Markdown, and writes every figure as JSON. BENCH is the program model_steps (benches/model_steps.cpp),
PYTHON one that can import torch. All run by turns; ratios are medians of the rounds' own, PyTorch's best way by median
counts. With one thread times are the processor's, which hold beside other work, with more the clock's.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

STEPS = {"mlp_4x8_10": 3000, "mlp_784_512_512_10": 200, "mlp_784_4x1024_10": 10, "digits_cnn": 200, "cnn_1_32_64": 20,
         "gpt_4x128": 10, "gpt_6x384": 3, "lstm_2x256": 6, "resnet_18": 3}
IMAGES = ("digits_cnn", "cnn_1_32_64", "resnet_18")
SECONDS_PER_RUN = 600
HERE = pathlib.Path(__file__).parent


def milliseconds(command, threads):
    """Of a step; None where it fails, as where nothing can be compiled."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_PER_RUN)
        row = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, json.JSONDecodeError):
        return None
    return row["processor_ms" if threads == 1 else "clock_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", type=pathlib.Path)
    parser.add_argument("--python", required=True, help="one that can import torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default=".")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--types", default="f32")
    parser.add_argument("--compiled", action="store_true", help="torch.compile, too, which takes a minute a run")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    threads = str(options.threads)
    print("| model | Tutti, ms | PyTorch, ms (its best) | PyTorch / Tutti (rounds) |\n|" + " --- |" * 4)
    figures = []
    for model in (name for name in STEPS if re.search(options.models, name)):
        for dtype in options.types.split(","):
            words = [model, threads, str(STEPS[model]), dtype]
            ways = ["eager"] + ["channels_last"] * (model in IMAGES) + ["compiled"] * options.compiled
            ours, theirs = [], {way: [] for way in ways}
            for _ in range(options.rounds):
                ours.append(milliseconds([str(options.bench.resolve()), *words], options.threads))
                if ours[-1] is None:
                    sys.exit(f"{options.bench} {' '.join(words)} has failed")
                for way in list(theirs):
                    taken = milliseconds([options.python, str(HERE / "torch_steps.py"), *words, way], options.threads)
                    if taken is None:
                        print(f"PyTorch, {way}: {' '.join(words)} has failed", file=sys.stderr)
                        del theirs[way]
                    else:
                        theirs[way].append(taken)
            if not theirs:
                sys.exit("PyTorch ran nothing")
            best = min(theirs, key=lambda way: statistics.median(theirs[way]))
            ratios = sorted(peer / own for own, peer in zip(ours, theirs[best]))
            figures.append({"model": model, "type": dtype, "threads": options.threads, "tutti": ours, "torch": theirs})
            print(f"| {model}, {dtype} | {statistics.median(ours):.3g} | {statistics.median(theirs[best]):.3g} ({best}) | "
                  f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f}) |", flush=True)
            if options.output:
                options.output.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
