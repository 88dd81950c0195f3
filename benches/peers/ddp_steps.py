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
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def mlp(*widths):
    layers = []
    for here, there in zip(widths, widths[1:]):
        layers += [nn.Linear(here, there), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention_in, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2)
                   for part in self.attention_in(self.before_attention(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, width)
        x = x + self.attention_out(mixed)
        return x + self.mlp(self.before_mlp(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary=65, context=128, width=128, heads=4, layers=4):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.last, self.logits = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.logits(self.last(self.blocks(x))).flatten(0, 1)


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.01, momentum=0.9, foreach=True)


def adamw(parameters):
    return torch.optim.AdamW(parameters, 1e-3, fused=True)


MODELS = {
    "mlp_4x8_10": (lambda: mlp(8, 8, 8, 8, 8, 10), 8, 8, sgd),
    "mlp_784_512_512_10": (lambda: mlp(784, 512, 512, 10), 64, 784, sgd),
    "mlp_784_4x1024_10": (lambda: mlp(784, 1024, 1024, 1024, 1024, 10), 256, 784, adamw),
    "gpt_4x128": (Gpt, 8, None, adamw),
}


def main():
    name, steps = sys.argv[1], int(sys.argv[2])
    make_model, batch, width, make_optimizer = MODELS[name]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(make_model(), gradient_as_bucket_view=True)
    optimizer = make_optimizer(model.parameters())
    torch.manual_seed(3 + dist.get_rank())
    if width is None:
        inputs, targets = torch.randint(65, (batch, 128)), torch.randint(65, (batch * 128,))
    else:
        inputs, targets = torch.randn(batch, width), torch.randint(10, (batch,))
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
