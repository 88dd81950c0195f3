# SPDX-License-Identifier: Apache-2.0
"""Bags of embeddings, recurrent networks over sequences of several lengths, gated activations, means of batches."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from losses import probabilities
from reference_file import constant, integers, normal, typed, uniform, values

TYPES = ("f64", "f32", "bf16", "f16")


def write_bags(file):
    def add(mode, dtype, indices, offsets=None, weights=None, **options):
        given = [each for each in (offsets, weights) if each is not None]
        places = {}
        if offsets is not None:
            places["offsets"] = 2
        if weights is not None:
            places["weights"] = 1 + len(given)

        def reference(table, indices, *rest):
            return functional.embedding_bag(
                indices,
                table,
                rest[0] if offsets is not None else None,
                mode=mode,
                per_sample_weights=rest[-1] if weights is not None else None,
                padding_idx=options.get("padding"),
            )

        inputs = [normal(7, 3), indices, *given]
        file.case("embedding_bag", reference, inputs, dtype, second=False, widened=True, mode=mode, **places, **options)

    flat = integers(0, 7, 9)
    uneven = values([0, 2, 2, 5], "i64")
    for dtype in TYPES:
        for mode in ("sum", "mean", "max"):
            add(mode, dtype, integers(0, 7, 4, 5))
            add(mode, dtype, flat, uneven)
            for padding in (2, -1):
                add(mode, dtype, values([[2, 1, 6, 6], [2, 2, 2, 2], [6, 6, 6, 6], [0, 1, 2, 3]], "i64"), padding=padding)
                add(mode, dtype, values([2, 1, 2, 2, 6, 6, 0, 2], "i64"), values([0, 2, 4, 6, 6], "i64"), padding=padding)
        add("sum", dtype, integers(0, 7, 4, 5), weights=normal(4, 5))
        add("sum", dtype, flat, uneven, normal(9))
        add("sum", dtype, flat, uneven, normal(9), padding=3)
    for mode in ("sum", "mean", "max"):
        add(mode, "f64", typed(integers(0, 7, 6), "i32"), typed(values([0, 0, 6], "i64"), "i32"))
        add(mode, "f64", integers(0, 7, 0), values([0, 0], "i64"))
        add(mode, "f64", values([[1, 1, 4], [4, 0, 4]], "i64"))


def packed(kind, settings, names):
    """The network is called with its weights as inputs, so that they have gradients."""

    def reference(x, *weights):
        network = kind(x.shape[-1], settings["hidden"], settings["layers"], bidirectional=settings["bidirectional"])
        sequence = pack_padded_sequence(x, torch.tensor(settings["lengths"]), enforce_sorted=False)
        output, state = torch.func.functional_call(network.to(x.dtype), dict(zip(names, weights)), (sequence,))
        padded, _ = pad_packed_sequence(output, total_length=x.shape[0])
        return (padded, *state) if isinstance(state, tuple) else (padded, state)

    return reference


def write_packed(file):
    for name, kind in (("rnn", nn.RNN), ("lstm", nn.LSTM), ("gru", nn.GRU)):
        for layers, bidirectional, lengths in (
            (1, False, (2, 4, 1)),
            (2, True, (3, 1, 5)),
            (2, False, (1, 1, 1)),
            (1, True, (5, 5, 4)),
        ):
            settings = {"hidden": 3, "layers": layers, "bidirectional": bidirectional, "lengths": lengths}
            parameters = list(kind(2, 3, layers, bidirectional=bidirectional).named_parameters())
            names = [each for each, _ in parameters]
            for dtype in ("f64", "f32"):
                inputs = [normal(5, 3, 2)] + [normal(*each.shape) for _, each in parameters]
                file.case(name, packed(kind, settings, names), inputs, dtype, second=False, **settings)


def write_activations(file):
    for dtype in TYPES:
        for axis in (-1, 0, 1):
            file.case("glu", lambda x: functional.glu(x, axis), [normal(4, 6)], dtype, widened=True, axis=axis)
            file.case("softmin", lambda x: functional.softmin(x, axis), [normal(3, 5)], dtype, widened=True, axis=axis)
        file.case("tanhshrink", functional.tanhshrink, [normal(3, 4)], dtype, widened=True)


def write_means(file):
    for dtype in TYPES:
        more = {"dtype": dtype, "widened": True, "reduction": "batch_mean"}
        for shape in ((5, 4), (3, 4, 2)):
            mean = lambda x, t: functional.kl_div(x, t, reduction="batchmean")
            file.case("kl_div", mean, [normal(*shape), probabilities(*shape)], **more)
        of_logarithms = lambda x, t: functional.kl_div(x, t, reduction="batchmean", log_target=True)
        file.case("kl_div", of_logarithms, [normal(4, 3), constant(uniform(-3, 0, 4, 3))], log_target=True, **more)


def write(file):
    file.special_results = ("embedding_bag", "glu", "softmin", "tanhshrink")
    write_bags(file)
    write_packed(file)
    write_activations(file)
    write_means(file)
