# SPDX-License-Identifier: Apache-2.0
"""Reductions, softmax and losses."""

import numpy
import torch
from torch.nn import functional

from reference_file import booleans, distinct, in_numpy, integers, normal, values

NAN, INFINITY = float("nan"), float("inf")
DTYPES = ("f64", "f32", "bf16", "f16")
SHAPES = (
    ((3, 4, 5), (0, 2), False),
    ((3, 4, 5), (1,), True),
    ((2, 3), (), False),
    ((7,), (-1,), False),
    ((), (), False),
)


def reduction(
    file, name, reference, make=normal, second=True, dtypes=DTYPES, widened=False, empty=True, whole=None, **attributes
):
    """`reference(x, axes, keep)`, of which axes are all, if there are none."""

    def add(inputs, axes, keep, dtype, second=second):
        file.case(
            name,
            lambda x: reference(x, axes or tuple(range(x.dim())), keep),
            inputs,
            dtype,
            second=second,
            widened=widened,
            axes=axes,
            keep_dims=keep,
            **attributes
        )

    for dtype in dtypes:
        for shape, axes, keep in SHAPES:
            if shape or empty:
                add([make(*shape)], axes, keep, dtype)
    for large, axis in (((29, 17), 0), ((3, 150), 1)):
        add([make(*large)], (axis,), False, "f32", second=False)
    if empty:
        add([normal(3, 0)], (0,), False, "f32")
        add([normal(2, 0, 3)], (), False, "f32") if empty == "sum" else None
    for special in ([1.0, NAN, 2.0], [1.0, INFINITY, 2.0], [-INFINITY, 1.0, 3.0], [INFINITY, -INFINITY, 1.0]):
        # Composites and PyTorch's formula differ in how infinities cancel: only values of those with a mean inside.
        file.case(
            name,
            lambda x: reference(x, (0,), False),
            [values(special)],
            "f32",
            second=False,
            gradient=name not in ("var", "stddev"),
            axes=(0,),
            **attributes
        )
    for dtype in ("i32", "i64", "u8") if whole else ():
        file.case(
            name, in_numpy(lambda x: whole(x, (0, 2), x.dtype)), [integers(0, 50, 3, 4, 5, dtype=dtype)], axes=(0, 2)
        )


def first_extremum(extremum, x, axes, keep):
    """The gradient goes to the first of equals, as torch.max's of one axis; amax would share it."""
    return (
        extremum(x, axes[0], keep).values
        if len(axes) == 1 and x.dim() > 0
        else {torch.max: torch.amax, torch.min: torch.amin}[extremum](x, axes, keep)
    )


def write_reductions(file):
    reduction(file, "sum", lambda x, a, k: x.sum(a, k), empty="sum")
    for dtype in ("i32", "i64", "u8", "i8"):
        file.case("sum", lambda x: x.sum((0, 2)), [integers(0, 50, 3, 4, 5, dtype=dtype)], axes=(0, 2))
    file.case("sum", lambda x: x.sum(1), [booleans(3, 4)], axes=(1,))
    reduction(file, "mean", lambda x, a, k: x.mean(a, k))
    reduction(
        file,
        "max",
        lambda x, a, k: first_extremum(torch.max, x, a, k),
        distinct,
        empty=False,
        whole=lambda x, a, d: numpy.max(x, a),
    )
    reduction(
        file,
        "min",
        lambda x, a, k: first_extremum(torch.min, x, a, k),
        distinct,
        empty=False,
        whole=lambda x, a, d: numpy.min(x, a),
    )
    for name in ("max", "min"):  # the gradient goes to the first of equals
        tied = values([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [-1.0, -1.0, 0.0]])
        file.case(name, lambda x: getattr(torch, name)(x, 1).values, [tied], axes=(1,))
        file.case(name, lambda x: getattr(torch, f"a{name}")(x, (0, 2)), [booleans(3, 2, 2)], axes=(0, 2))
    for correction in (1, 0):
        var = lambda x, a, k: torch.var(x, a, correction=correction, keepdim=k)
        std = lambda x, a, k: torch.std(x, a, correction=correction, keepdim=k)
        reduction(file, "var", var, widened=True, empty=False, correction=correction)
        reduction(file, "stddev", std, widened=True, empty=False, correction=correction)
    reduction(file, "norm", lambda x, a, k: torch.linalg.vector_norm(x, 2, a, k), widened=True, empty=False)
    file.case(
        "norm", lambda x: torch.linalg.vector_norm(x, 2, 1), [values([[0.0, 0.0], [3.0, 4.0]])], second=False, axes=(1,)
    )
    reduction(file, "logsumexp", lambda x, a, k: torch.logsumexp(x, a, k), widened=True, empty=False)
    file.case(
        "logsumexp",
        lambda x: torch.logsumexp(x, 1),
        [values([[1000.0, 999.0], [-1000.0, -1001.0], [-INFINITY, 1.0]])],
        axes=(1,),
        second=False,
    )
    for name in ("argmax", "argmin"):
        reference = getattr(numpy, name)
        for axis in (0, -1):
            for make, dtype in (
                (distinct(4, 5), "f32"),
                (integers(0, 3, 4, 5), "f32"),
                (integers(0, 3, 4, 5, dtype="u8"), "f32"),
                (values([[1.0, NAN, 3.0], [2.0, INFINITY, INFINITY], [-INFINITY, -INFINITY, NAN]]), "f64"),
            ):
                file.case(
                    name,
                    in_numpy(lambda x: numpy.asarray(reference(x, axis))),
                    [make],
                    dtype,
                    gradient=False,
                    axis=axis,
                )
        file.case(
            name,
            lambda x: getattr(torch, name)(x, 1, True),
            [distinct(4, 5)],
            "bf16",
            gradient=False,
            axis=1,
            keep_dims=True,
        )
        for make in (distinct(2, 3, 4), integers(0, 3, 4, 5), values(3.0)):
            file.case(name, lambda x: getattr(torch, name)(x), [make], "f32", gradient=False)


def write_softmax(file):
    for name in ("softmax", "log_softmax"):
        reference = getattr(torch, name)
        for dtype in DTYPES:
            for shape, axis in (((3, 7), -1), ((3, 7, 2), 1), ((5,), 0), ((4, 1), 1), ((2, 0, 3), 1), ((0, 3), 1)):
                file.case(name, lambda x: reference(x, axis), [normal(*shape)], dtype, axis=axis)
        file.case(name, lambda x: reference(x, 0), [normal(70, 3)], "f32", second=False, axis=0)
        file.case(name, lambda x: reference(x, -1), [normal(2, 400)], "f32", second=False, axis=-1)
        rows = [
            [1e4, 0.0, -1e4],
            [-INFINITY, 1.0, 2.0],
            [INFINITY, 1.0, 2.0],
            [NAN, 1.0, 2.0],
            [-INFINITY] * 3,
            [5.0] * 3,
        ]
        for dtype in ("f32", "f64"):
            file.case(name, lambda x: reference(x, -1), [values(rows)], dtype, second=False, axis=-1)


def write_losses(file):
    for reduce in ("mean", "sum", "none"):
        for dtype in ("f64", "f32", "bf16"):
            cross = lambda x, t: functional.cross_entropy(x, t, reduction=reduce)
            file.case("cross_entropy", cross, [normal(6, 5), integers(0, 5, 6)], dtype, reduction=reduce, widened=True)
            mse = lambda x, t: functional.mse_loss(x, t, reduction=reduce)
            file.case("mse_loss", mse, [normal(3, 4), normal(3, 4)], dtype, reduction=reduce, widened=True)
        large = values([[1e3, -1e3, 0.0], [-1e3, 1e3, 0.0]])
        file.case(
            "cross_entropy",
            lambda x, t: functional.cross_entropy(x, t, reduction=reduce),
            [large, values([1, 1], "i64")],
            "f32",
            reduction=reduce,
        )
    file.case(
        "cross_entropy",
        lambda x, t: functional.cross_entropy(x, t, reduction="sum"),
        [normal(0, 3), integers(0, 3, 0)],
        "f32",
        reduction="sum",
    )


def write_scalars(file):
    file.case("logsumexp", lambda x: torch.logsumexp(x, 0), [normal()], "f32", axes=())
    for name in ("max", "min"):
        file.case(name, getattr(torch, name), [normal()], "f32", axes=())
    file.case("norm", torch.linalg.vector_norm, [normal()], "f32", second=False, axes=())


def write(file):
    file.special = ("mse_loss",)
    write_reductions(file)
    write_softmax(file)
    write_losses(file)
    write_scalars(file)
