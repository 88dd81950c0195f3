# SPDX-License-Identifier: Apache-2.0
"""The models, batches and optimizers of benches/models.h in PyTorch."""

import torch
import torch.nn.functional as F
from torch import nn


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
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

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
        self.last, self.logits = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight[:tokens.shape[1]]
        return self.logits(self.last(self.blocks(x))).flatten(0, 1)


class Lstm(nn.Module):
    def __init__(self, vocabulary=65, width=256, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.logits = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.logits(self.lstm(self.tokens(tokens))[0]).flatten(0, 1)


def convolution(channels, out, kernel=3, stride=1):
    return nn.Conv2d(channels, out, kernel, stride, padding=kernel // 2, bias=False)


class ResidualBlock(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.inner = nn.Sequential(convolution(channels, out, 3, stride), nn.BatchNorm2d(out), nn.ReLU(),
                                   convolution(out, out), nn.BatchNorm2d(out))
        self.shortcut = nn.Identity() if channels == out and stride == 1 else convolution(channels, out, 1, stride)

    def forward(self, x):
        return F.relu(self.shortcut(x) + self.inner(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, channels = [], 64
        for out in (64, 128, 256, 512):
            for stride in (1 if out == 64 else 2, 1):
                blocks.append(ResidualBlock(channels, out, stride))
                channels = out
        self.stem = nn.Sequential(convolution(3, 64), nn.BatchNorm2d(64), nn.ReLU())
        self.blocks, self.logits = nn.Sequential(*blocks), nn.Linear(512, 10)

    def forward(self, x):
        return self.logits(self.blocks(self.stem(x)).mean((2, 3)))


def digits_cnn():
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1),
                         nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 10))


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.01, momentum=0.9, fused=True)


def adamw(parameters):
    return torch.optim.AdamW(parameters, 1e-3, fused=True)


# A model, its batch, the shape of an example, its optimizer; tokens are integers below 65, each with a target.
MODELS = {
    "mlp_4x8_10": (lambda: mlp(8, 8, 8, 8, 8, 10), 8, (8,), sgd),
    "mlp_784_512_512_10": (lambda: mlp(784, 512, 512, 10), 64, (784,), sgd),
    "mlp_784_4x1024_10": (lambda: mlp(784, 1024, 1024, 1024, 1024, 10), 256, (784,), adamw),
    "digits_cnn": (digits_cnn, 64, (1, 8, 8), adamw),
    "cnn_1_32_64": (cnn, 64, (1, 28, 28), sgd),
    "gpt_4x128": (Gpt, 8, (128,), adamw),
    "gpt_6x384": (lambda: Gpt(65, 256, 384, 6, 6), 4, (256,), adamw),
    "lstm_2x256": (Lstm, 32, (64,), adamw),
    "resnet_18": (ResNet18, 32, (3, 32, 32), sgd),
}
TEXT = ("gpt_4x128", "gpt_6x384", "lstm_2x256")


def batch_of(name):
    """Inputs and targets."""
    _, batch, example, _ = MODELS[name]
    if name in TEXT:
        return torch.randint(65, (batch, *example)), torch.randint(65, (batch * example[0],))
    return torch.randn(batch, *example), torch.randint(10, (batch,))
