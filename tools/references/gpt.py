# SPDX-License-Identifier: Apache-2.0
"""A small GPT made by PyTorch: its state_dict in one file; in another, of one batch, logits, loss and gradients, and the
losses of ten steps of AdamW from there."""

import numpy
import torch
from torch import nn
from torch.nn import functional

from reference_file import attribute, versions, write_safetensors

SIZES = {"vocabulary": 29, "length": 12, "width": 16, "heads": 4, "layers": 2}


class Gpt(nn.Module):
    def __init__(self, vocabulary, length, width, heads, layers):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        block = lambda: nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.ModuleList(block() for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.positions(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        for block in self.blocks:
            x = block(x, src_mask=mask)
        return self.head(self.norm(x))


def model():
    """The same whatever the version of PyTorch draws: numbers of a fixed generator in place of its initial weights."""
    random = numpy.random.RandomState(7)
    made = Gpt(**SIZES)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            spread = 0.3 if parameter.dim() == 2 else 0.1
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(torch.from_numpy(centre + spread * random.standard_normal(tuple(parameter.shape))))
    return made, torch.from_numpy(random.randint(0, SIZES["vocabulary"], (3, SIZES["length"])))


def loss_of(made, tokens):
    logits = made(tokens[:, :-1])
    return logits, functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def write_weights(path):
    made, _ = model()
    write_safetensors(path, made.state_dict(), versions() | {key: attribute(value) for key, value in SIZES.items()})


def write_results(path):
    made, tokens = model()
    logits, loss = loss_of(made, tokens)
    loss.backward()
    results = {"tokens": tokens, "logits": logits, "loss": loss}
    results |= {f"gradient.{name}": parameter.grad.clone() for name, parameter in made.named_parameters()}
    optimizer = torch.optim.AdamW(made.parameters(), lr=0.01, weight_decay=0.1)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = loss_of(made, tokens)[1]
        losses.append(loss.detach())
        loss.backward()
        optimizer.step()
    results["losses"] = torch.stack(losses)
    write_safetensors(path, results, versions())
