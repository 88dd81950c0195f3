#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The training steps of benches/models.h in PyTorch, eagerly: what benches/cuda/training_steps.cpp measures.

torch_eager.py [--device cuda] [--steps N] [--output FILE]: a JSON list of rows; without torch, a line that says so and
status 77.
"""

import argparse
import json
import statistics
import sys
import time

try:
    import torch
    from torch import nn
except ImportError as error:
    print(f"PyTorch cannot be imported: {error}")
    sys.exit(77)


def mlp(*widths):
    layers = []
    for here, there in zip(widths, widths[1:]):
        layers += [nn.Linear(here, there), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def digits_cnn():
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))


def momentum_sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)


WORKLOADS = [
    ("mlp_784_512_512_10", 64, (784,), lambda: mlp(784, 512, 512, 10), momentum_sgd),
    ("mlp_784_4x1024_10", 256, (784,), lambda: mlp(784, 1024, 1024, 1024, 1024, 10), adamw),
    ("digits_cnn", 64, (1, 8, 8), digits_cnn, adamw),
]


def finish(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def step_seconds(device, steps, batch, example, make_model, make_optimizer):
    """The median of five samples of so many steps."""
    torch.manual_seed(1)
    model = make_model().to(device)
    optimizer = make_optimizer(model.parameters())
    inputs = torch.randn(batch, *example, device=device)
    targets = torch.randint(10, (batch,), device=device)
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss_of(model(inputs), targets).backward()
        optimizer.step()

    for _ in range(max(3, steps // 10)):
        step()
    samples = []
    for _ in range(5):
        finish(device)
        start = time.perf_counter()
        for _ in range(steps):
            step()
        finish(device)
        samples.append((time.perf_counter() - start) / steps)
    return statistics.median(samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--output")
    options = parser.parse_args()
    device = torch.device(options.device)
    rows = []
    for name, batch, *rest in WORKLOADS:
        seconds = step_seconds(device, options.steps, batch, *rest)
        print(f"{name:<28}{1e3 * seconds:>12.4f} ms", flush=True)
        rows.append({"name": name, "seconds": seconds, "work": batch, "torch": torch.__version__})
        if options.output:
            with open(options.output, "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
