# SPDX-License-Identifier: Apache-2.0
"""Losses with their options, and recurrent networks."""

import functools

import torch
from torch import nn
from torch.nn import functional

from reference_file import constant, integers, normal, uniform, values

REDUCED = (("mean", "f64"), ("mean", "bf16"), ("mean", "f16"), ("sum", "f32"), ("none", "f32"))


def probabilities(*shape):
    def make(random):
        weights = random.uniform(0.1, 1, shape)
        return weights / weights.sum(1, keepdims=True)

    return make


def write_classes(file):
    for reduce, dtype in REDUCED:
        more = {"widened": True, "reduction": reduce}
        for options in (
            {},
            {"label_smoothing": 0.1},
            {"ignore_index": 2},
            {"label_smoothing": 0.3, "ignore_index": 0},
        ):
            plain = lambda x, t: functional.cross_entropy(x, t, reduction=reduce, **options)
            file.case("cross_entropy", plain, [normal(7, 4), integers(0, 4, 7)], dtype, **more, **options)
            image = [normal(2, 3, 4, 2), integers(0, 3, 2, 4, 2)]
            file.case("cross_entropy", plain, image, dtype, second=dtype == "f64", **more, **options)
            weighted = lambda x, t, w: functional.cross_entropy(x, t, w, reduction=reduce, **options)
            inputs = [normal(7, 4), integers(0, 4, 7), constant(uniform(0.2, 2, 4))]
            file.case("cross_entropy", weighted, inputs, dtype, weight=2, **more, **options)
        for options in ({}, {"label_smoothing": 0.2}):
            soft = lambda x, t: functional.cross_entropy(x, t, reduction=reduce, **options)
            file.case("cross_entropy", soft, [normal(5, 4), probabilities(5, 4)], dtype, **more, **options)
            weighted = lambda x, t, w: functional.cross_entropy(x, t, w, reduction=reduce, **options)
            inputs = [normal(5, 4), probabilities(5, 4), constant(uniform(0.2, 2, 4))]
            file.case("cross_entropy", weighted, inputs, dtype, weight=2, **more, **options)
        for options in ({}, {"ignore_index": 1}):
            nll = lambda x, t, w: functional.nll_loss(x, t, w, reduction=reduce, **options)
            inputs = [normal(6, 3), integers(0, 3, 6), constant(uniform(0.2, 2, 3))]
            file.case("nll_loss", nll, inputs, dtype, weight=2, **more, **options)
            nll = lambda x, t: functional.nll_loss(x, t, reduction=reduce, **options)
            file.case("nll_loss", nll, [normal(2, 3, 5), integers(0, 3, 2, 5)], dtype, **more, **options)
        for log_target in (False, True):
            kl = lambda x, t: functional.kl_div(x, t, reduction=reduce, log_target=log_target)
            target = normal(4, 3) if log_target else probabilities(4, 3)
            file.case("kl_div", kl, [normal(4, 3), target], dtype, second=not log_target, log_target=log_target, **more)
    last = lambda x, t: functional.cross_entropy(x.transpose(1, 2), t)
    file.case("cross_entropy", last, [normal(2, 5, 4), integers(0, 4, 2, 5)], "f32", reduction="mean", class_axis=-1)
    ignored = lambda x, t: functional.cross_entropy(x, t, ignore_index=1)
    file.case(
        "cross_entropy",
        ignored,
        [normal(3, 4), values([1, 1, 1], "i64")],
        "f32",
        second=False,
        reduction="mean",
        ignore_index=1,
    )


def write_elements(file):
    pair = [values([[0.5, -3.0, 1.0], [2.0, 0.0, -0.25]]), normal(2, 3)]
    for reduce, dtype in REDUCED:
        more = {"dtype": dtype, "widened": True, "reduction": reduce}
        file.case("l1_loss", lambda x, t: functional.l1_loss(x, t, reduction=reduce), pair, **more)
        for delta in (1.0, 0.4):
            huber = lambda x, t: functional.huber_loss(x, t, reduction=reduce, delta=delta)
            file.case("huber_loss", huber, pair, delta=delta, **more)
            smooth = lambda x, t: functional.smooth_l1_loss(x, t, reduction=reduce, beta=delta)
            file.case("smooth_l1_loss", smooth, pair, beta=delta, **more)
        chances = [uniform(0.05, 0.95, 3, 4), uniform(0, 1, 3, 4)]
        plain = lambda p, t, w=None: functional.binary_cross_entropy(p, t, w, reduction=reduce)
        targets = [chances[0], constant(chances[1])]  # PyTorch has no second derivative for targets
        file.case("binary_cross_entropy", plain, targets, second=False, **more)
        file.case(
            "binary_cross_entropy", plain, [*targets, constant(uniform(0.1, 2, 4))], second=False, weight=2, **more
        )
        logits = lambda x, t, w=None, p=None: functional.binary_cross_entropy_with_logits(
            x, t, w, reduction=reduce, pos_weight=p
        )
        inputs = [normal(3, 4), constant(chances[1]), constant(uniform(0.1, 2, 3, 4)), constant(uniform(0.5, 3, 4))]
        name = "binary_cross_entropy_with_logits"
        file.case(name, logits, inputs[:2], **more)
        file.case(name, logits, inputs[:3], weight=2, **more)
        file.case(name, logits, inputs, weight=2, pos_weight=3, **more)
    nothing = [normal(0, 3), normal(0, 3)]
    for reduce in ("sum", "none"):  # of a mean there is an error here
        for name, options in (("l1_loss", {}), ("huber_loss", {"delta": 1.0}), ("smooth_l1_loss", {"beta": 1.0})):
            loss = lambda x, t: getattr(functional, name)(x, t, reduction=reduce)
            file.case(name, loss, nothing, "f32", reduction=reduce, **options)
        logits = lambda x, t: functional.binary_cross_entropy_with_logits(x, t, reduction=reduce)
        file.case("binary_cross_entropy_with_logits", logits, nothing, "f32", reduction=reduce)
        classes = lambda x, t: functional.nll_loss(x, t, reduction=reduce)
        file.case("nll_loss", classes, [normal(0, 3), integers(0, 3, 0)], "f32", reduction=reduce)
    extreme = [values([1000.0, -1000.0, 0.0]), constant(values([0.0, 1.0, 1.0]))]
    far = lambda x, t: functional.binary_cross_entropy_with_logits(x, t, reduction="none")
    file.case("binary_cross_entropy_with_logits", far, extreme, "f32", second=False, reduction="none")
    # Of -inf PyTorch makes NaN: (1 - t) x - log(sigmoid(x)) is -inf + inf. The loss is infinite.
    beyond = [values([float("nan"), float("inf"), float("inf")]), constant(values([0.5, 0.0, 0.25]))]
    file.case("binary_cross_entropy_with_logits", far, beyond, "f32", second=False, reduction="none")
    ends = [values([0.0, 1.0, 0.0, 1.0]), constant(values([0.0, 1.0, 1.0, 0.0]))]
    sure = lambda p, t: functional.binary_cross_entropy(p, t, reduction="none")
    file.case("binary_cross_entropy", sure, ends, "f32", second=False, reduction="none")


def write_ctc(file):
    """Behind a log_softmax, where PyTorch's gradient is that of the loss."""

    def add(time, batch, classes, labels, input_lengths, target_lengths, dtype="f64", gradient=True, blank=0, **options):
        reduction, zero = options.get("reduction", "mean"), options.get("zero_infinity", False)

        def reference(x, targets):
            lengths = torch.tensor(input_lengths), torch.tensor(target_lengths)
            return functional.ctc_loss(x.log_softmax(-1), targets, *lengths, blank, reduction, zero)

        low, high = (1, classes) if blank == 0 else (0, classes - 1)
        file.case(
            "ctc_loss",
            reference,
            [normal(time, batch, classes), integers(low, high, batch, labels)],
            dtype,
            gradient,
            second=False,
            input_lengths=input_lengths,
            target_lengths=target_lengths,
            blank=blank,
            reduction=reduction,
            zero_infinity=zero,
            **({"tolerance": 2e-5} if dtype == "f32" and time > 20 else {}),
        )

    for dtype in ("f64", "f32"):
        for reduction in ("mean", "sum", "none"):
            add(6, 3, 4, 2, [6, 6, 6], [2, 2, 2], dtype, reduction=reduction)
            add(7, 3, 5, 3, [7, 4, 5], [3, 2, 0], dtype, reduction=reduction, blank=4)
        add(40, 2, 8, 12, [40, 33], [12, 9], dtype)
        add(6, 2, 3, 4, [6, 3], [2, 4], dtype, reduction="sum", zero_infinity=True)
    add(4, 2, 3, 5, [4, 2], [4, 5], "f32", gradient=False, reduction="none")
    add(4, 2, 3, 5, [0, 4], [0, 1], "f32", gradient=False, reduction="none")
    add(4, 2, 3, 0, [4, 3], [0, 0], "f64")
    add(3, 2, 3, 2, [3, 3], [2, 2], "f32", reduction="none")


def recurrent(kind, settings, names):
    """The network is called with its weights as inputs, so that they have gradients."""

    def reference(x, *weights):
        network = kind(x.shape[-1], settings["hidden"], settings["layers"], bidirectional=settings["bidirectional"]).to(
            x.dtype
        )
        sequence, state = torch.func.functional_call(network, dict(zip(names, weights)), (x,))
        return (sequence, *state) if isinstance(state, tuple) else (sequence, state)

    return reference


def write_recurrent(file):
    for name, kind, gates in (("rnn", nn.RNN, 1), ("lstm", nn.LSTM, 4), ("gru", nn.GRU, 3)):
        for layers, bidirectional in ((1, False), (2, False), (1, True), (2, True)):
            settings = {"hidden": 3, "layers": layers, "bidirectional": bidirectional}
            names = [each for each, _ in kind(2, 3, layers, bidirectional=bidirectional).named_parameters()]
            shapes = [
                tuple(each.shape) for _, each in kind(2, 3, layers, bidirectional=bidirectional).named_parameters()
            ]
            for dtype in ("f64", "f32"):
                inputs = [normal(4, 2, 2)] + [normal(*shape) for shape in shapes]
                file.case(name, recurrent(kind, settings, names), inputs, dtype, second=False, **settings)
                if kind is nn.RNN:
                    of_relu = functools.partial(kind, nonlinearity="relu")
                    more = settings | {"nonlinearity": "relu"}
                    file.case(name, recurrent(of_relu, settings, names), inputs, dtype, second=False, **more)


def write(file):
    losses = ("cross_entropy", "nll_loss", "kl_div", "l1_loss", "huber_loss", "smooth_l1_loss")
    file.special = (*losses, "rnn", "lstm", "gru")
    file.special_results = ("ctc_loss",)
    write_classes(file)
    write_elements(file)
    write_ctc(file)
    write_recurrent(file)
