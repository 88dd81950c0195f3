#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency of models that PyTorch exports to ONNX, here and in ONNX Runtime, one thread each.

onnx_latency.py BENCH [--rounds N] [--models REGEX]: prints a table in Markdown, medians of the rounds' medians and of
their 99th percentiles, in microseconds. BENCH is the program onnx_latency (benches/onnx_latency.cpp); the Python that
runs this has torch, onnx and onnxruntime.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import numpy
import onnxruntime
import torch
from torch import nn

from torch_models import mlp

RUNS = {1: 300, 32: 30}


class OnlyOutputs(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)[0]


def transformer():
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


# A model, and the shape of its input with so many examples.
MODELS = {
    "MLP 784-512-512-10": (lambda: mlp(784, 512, 512, 10), lambda batch: (batch, 784)),
    "two transformer blocks, 64 features, 64 tokens": (transformer, lambda batch: (batch, 64, 64)),
    "LSTM 2 x 16, both directions, 32 steps": (lambda: OnlyOutputs(nn.LSTM(16, 16, 2, bidirectional=True)),
                                               lambda batch: (32, batch, 16)),
    "LSTM 2 x 256, 32 steps": (lambda: OnlyOutputs(nn.LSTM(256, 256, 2)), lambda batch: (32, batch, 256)),
    "GRU 1 x 128, 32 steps": (lambda: OnlyOutputs(nn.GRU(128, 128)), lambda batch: (32, batch, 128)),
}


def runtime_latency(path, x, runs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x}
    times = []
    for i in range(runs + runs // 10 + 5):
        begin = time.perf_counter()
        session.run(None, feed)
        if i >= runs // 10 + 5:
            times.append(1e6 * (time.perf_counter() - begin))
    times.sort()
    return times[(len(times) - 1) // 2], times[(len(times) - 1) * 99 // 100]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default=".")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | batch | here | here, replayed | ONNX Runtime | its time / ours, replayed if it is (rounds) |\n|" + " --- |" * 6)
    for name, (make, shape_of) in MODELS.items():
        if not re.search(options.models, name):
            continue
        for batch, runs in RUNS.items():
            shape = shape_of(batch)
            torch.manual_seed(1)
            with tempfile.TemporaryDirectory() as folder:
                path = f"{folder}/model.onnx"
                torch.onnx.export(make().eval(), (torch.randn(shape),), path, dynamo=False)
                plain, replayed, peer = [], [], []
                for _ in range(options.rounds):
                    done = subprocess.run([str(options.bench.resolve()), path, str(runs), *map(str, shape)],
                                          stdout=subprocess.PIPE, text=True, check=True)
                    row = json.loads(done.stdout)
                    plain.append(row["plain_us"])
                    replayed.append(row["replayed_us"] or row["plain_us"])
                    peer.append(runtime_latency(path, numpy.random.randn(*shape).astype(numpy.float32), runs))

            def shown(pairs):
                return "; ".join(f"{statistics.median(column):.0f}" for column in zip(*pairs))

            ratios = sorted(theirs[0] / ours[0] for ours, theirs in zip(replayed, peer))
            captured = shown(replayed) if replayed != plain else "not captured"
            print(f"| {name} | {batch} | {shown(plain)} | {captured} | {shown(peer)} | "
                  f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f}) |", flush=True)


if __name__ == "__main__":
    main()
