#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What benches/process_steps.cpp measures, in PyTorch: DistributedDataParallel over Gloo, one thread a process.

ddp_steps.py MODEL STEPS, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set: one line of JSON, of rank 0.
"""

import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from torch_models import MODELS, batch_of


def main():
    name, steps = sys.argv[1], int(sys.argv[2])
    make_model, _, _, make_optimizer = MODELS[name]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(make_model(), gradient_as_bucket_view=True)
    optimizer = make_optimizer(model.parameters())
    torch.manual_seed(3 + dist.get_rank())
    inputs, targets = batch_of(name)
    times = []
    for i in range(steps + steps // 10 + 1):
        begin = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        if i > steps // 10:
            times.append(1e3 * (time.perf_counter() - begin))
    if dist.get_rank() == 0:
        print(json.dumps({"model": name, "processes": dist.get_world_size(), "ms": statistics.median(times)}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
