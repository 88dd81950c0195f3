#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What benches/cuda measures, in PyTorch: training steps, parts of transformers, and steps of GPT-2 124M, which are
compiled by torch.compile where ours are captured. Products of f32 are f32, as ours.

torch_eager.py [--device cuda] [--steps N] [--output FILE]: a JSON list of rows, under the names of ours, written anew
after each; without torch, a line that says so and status 77. On a CPU, a rehearsal, shapes are small.
"""

import argparse
import itertools
import json
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn

    from torch_models import digits_cnn, mlp
except ImportError as error:
    print(f"PyTorch cannot be imported: {error}")
    sys.exit(77)


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


def seconds_of(device, call, seconds=0.3):
    """Of one call: the shortest of five samples."""

    def sample(calls):
        finish(device)
        start = time.perf_counter()
        for _ in range(calls):
            call()
        finish(device)
        return (time.perf_counter() - start) / calls

    sample(1)
    once = sample(2)
    calls = max(1, min(10000, int(seconds / 5 / max(once, 1e-7))))
    return min(once, *(sample(calls) for _ in range(5)))


def training_rows(device, steps):
    for name, batch, *rest in WORKLOADS:
        yield name, step_seconds(device, steps, batch, *rest), batch


# --- parts of transformers: benches/cuda/transformer_parts.cpp

def both(device, name, shapes, f):
    for dtype in (torch.float32, torch.bfloat16):
        inputs = [torch.randn(*shape, device=device).to(dtype).requires_grad_() for shape in shapes]
        gradient = torch.ones_like(f(*inputs))

        def call():
            for tensor in inputs:
                tensor.grad = None
            f(*inputs).backward(gradient)

        yield f"{name}, {'f32' if dtype == torch.float32 else 'bf16'}", seconds_of(device, call), 0


def attention_rows(device, less):
    for length, features in ((1024, 64), (1024, 128), (4096, 64), (4096, 128)):
        shape = (2, 12 * (4096 // length), less(length), features)
        yield from both(device, f"causal attention, T {length}, d {features}", [shape] * 3,
                        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))


def part_rows(device, less):
    tokens, width, vocabulary = less(8192), less(768), less(50257)
    for name, inner, columns in (("product of the attention's inputs", width, 3 * width),
                                 ("product into the wide layer", width, 4 * width),
                                 ("product out of the wide layer", 4 * width, width),
                                 ("product with the vocabulary", width, vocabulary)):
        yield from both(device, name, [(tokens, inner), (inner, columns)], torch.matmul)
    targets = torch.randint(vocabulary, (tokens,), device=device)
    yield from both(device, "cross entropy of 50257 classes", [(tokens, vocabulary)],
                    lambda x: F.cross_entropy(x, targets))
    yield from both(device, "layer norm of 768", [(tokens, width), (width,), (width,)],
                    lambda x, weight, bias: F.layer_norm(x, (width,), weight, bias))
    yield from both(device, "softmax of rows of 768", [(tokens, width)], lambda x: F.softmax(x, -1))
    yield from both(device, "gelu", [(tokens, 4 * width)], lambda x: F.gelu(x, approximate="tanh"))
    yield from both(device, "dropout", [(tokens, width)], lambda x: F.dropout(x, 0.1))
    indices = torch.randint(vocabulary, (tokens,), device=device)
    yield from both(device, "embedding of 50257 x 768", [(vocabulary, width)], lambda table: F.embedding(indices, table))
    shapes = [(vocabulary, width), (less(1024), width)]
    for _ in range(12):
        shapes += [(width, columns * width) for columns in (3, 1, 4, 4)]
        shapes += [(length * width,) for length in (1, 1, 1, 1, 3, 1, 4, 1)]
    parameters = [torch.zeros(*shape, device=device, requires_grad=True) for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 2.0)
    optimizer = torch.optim.AdamW(parameters, lr=1e-6)
    yield "AdamW of 124 M parameters, f32", seconds_of(device, optimizer.step), 0


# --- GPT-2 124M: benches/cuda/gpt2_steps.cpp

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2)
                   for part in self.inputs(self.norm1(x)).split(width, dim=2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(seen.transpose(1, 2).reshape(n, t, width))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, context, width, heads, layers):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets)


def gpt2_seconds(device, batch, dtype, compiled):
    small = device.type == "cpu"
    torch.manual_seed(1)
    vocabulary, context = (96, 16) if small else (50257, 1024)
    model = Gpt2(vocabulary, context, *((64, 4, 2) if small else (768, 12, 12))).to(device)
    optimizer = adamw(model.parameters())
    batch = 2 if small else batch
    tokens = torch.randint(vocabulary, (batch, context), device=device)
    targets = torch.randint(vocabulary, (batch * context,), device=device)
    loss_of = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bf16"):
            loss = loss_of(tokens, targets)
        loss.backward()
        optimizer.step()

    return seconds_of(device, step), batch * context


def gpt2_rows(device):
    for compiled in (False, True):  # compiling takes long: what needs none comes first
        for batch, dtype in ((8, "bf16"), (8, "f32"), (32, "bf16")):
            yield (f"gpt2_124m_b{batch}_{dtype}{'_captured' if compiled else ''}",
                   *gpt2_seconds(device, batch, dtype, compiled))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--output")
    options = parser.parse_args()
    device = torch.device(options.device)
    shrink = 128 if device.type == "cpu" else 1

    def less(length):
        return max(8, length // shrink)

    rows = []
    for name, seconds, work in itertools.chain(training_rows(device, options.steps), attention_rows(device, less),
                                               part_rows(device, less), gpt2_rows(device)):
        print(f"{name:<44}{1e3 * seconds:>12.4f} ms", flush=True)
        rows.append({"name": name, "seconds": seconds, "work": work, "torch": torch.__version__})
        if options.output:
            with open(options.output, "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
