#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What benches/model_steps.cpp measures, in PyTorch.

torch_steps.py MODEL THREADS STEPS f32|bf16 WAY: one line of JSON. WAY is eager, channels_last, compiled or both,
channels_last_compiled.
"""

import json
import pathlib
import re
import statistics
import sys
import time

import torch
import torch.nn.functional as F

from torch_models import MODELS, batch_of


def megabytes(which):
    """Resident memory: VmRSS, now, or VmHWM, the most since the process began or forget_peak was called."""
    return int(re.search(rf"^{which}:\s*(\d+)", pathlib.Path("/proc/self/status").read_text(), re.MULTILINE)[1]) / 1024


def forget_peak():
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def main():
    name, threads, steps, dtype, way = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    make_model, _, _, make_optimizer = MODELS[name]
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = make_model()
    inputs, targets = batch_of(name)
    if "channels_last" in way:
        model, inputs = (each.to(memory_format=torch.channels_last) for each in (model, inputs))
    optimizer = make_optimizer(model.parameters())
    forward = torch.compile(model) if "compiled" in way else model
    peak_before, before_steps, processor, clock = megabytes("VmHWM"), megabytes("VmRSS"), [], []
    forget_peak()
    for i in range(steps + steps // 10 + 1):
        processor_before, clock_before = time.process_time(), time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            loss = F.cross_entropy(forward(inputs), targets)
        loss.backward()
        optimizer.step()
        if i > steps // 10:  # the first are not timed
            processor.append(1e3 * (time.process_time() - processor_before))
            clock.append(1e3 * (time.perf_counter() - clock_before))
    print(json.dumps({"model": name, "type": dtype, "threads": threads, "way": way,
                      "processor_ms": statistics.median(processor), "clock_ms": statistics.median(clock),
                      "peak_mb": max(peak_before, megabytes("VmHWM")), "steps_mb": megabytes("VmHWM") - before_steps}))


if __name__ == "__main__":
    main()
