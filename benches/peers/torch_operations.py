#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `chain` of benches/autodiff_bench.cpp measures, in PyTorch: a hundred operations of 8 x 8 f32 and their backward.

torch_operations.py eager|compiled: one line of JSON for each operation, with the processor's time of one, in ns.
"""

import json
import statistics
import sys
import time

import torch

LENGTH, SAMPLES = 100, 9
OPERATIONS = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "relu": lambda a, b: torch.relu(a),
    "matmul": lambda a, b: a @ b,
}


def main():
    torch.set_num_threads(1)
    a = torch.full((8, 8), 0.125, requires_grad=True)
    b, seed = torch.full((8, 8), 0.125), torch.full((8, 8), 0.125)
    for name, operation in OPERATIONS.items():
        def chain(y, operation=operation):
            for _ in range(LENGTH):
                y = operation(y, b)
            return y

        forward = torch.compile(chain) if sys.argv[1] == "compiled" else chain

        def sample(calls, forward=forward):
            before = time.process_time()
            for _ in range(calls):
                forward(a).backward(seed)
                a.grad = None
            return (time.process_time() - before) / calls / LENGTH

        sample(20)
        calls = max(20, int(0.05 / LENGTH / sample(20)))  # a sample of about 50 ms
        print(json.dumps({"operation": name, "ns": 1e9 * statistics.median(sample(calls) for _ in range(SAMPLES))}), flush=True)


if __name__ == "__main__":
    main()
