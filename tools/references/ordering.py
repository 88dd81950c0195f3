# SPDX-License-Identifier: Apache-2.0
"""Products, counts, sorting, and sums and products up to each element."""

import numpy
import torch

from reference_file import booleans, distinct, in_numpy, integers, normal, values

NAN, INFINITY = float("nan"), float("inf")
DTYPES = ("f64", "f32", "bf16", "f16")
SHAPES = (
    ((3, 4, 5), (0, 2), False),
    ((3, 4, 5), (1,), True),
    ((2, 3), (), False),
    ((7,), (-1,), False),
    ((3, 0), (1,), False),
)


def product(x, axes, keep):
    """torch.prod takes one axis."""
    for axis in sorted((axis % x.dim() for axis in axes or range(x.dim())), reverse=True):
        x = x.prod(axis, keep)
    return x


def write_products(file):
    for shape, axes, keep in SHAPES:
        reference = lambda x: product(x, axes, keep)
        for dtype in DTYPES:
            file.case("prod", reference, [normal(*shape)], dtype, widened=True, axes=axes, keep_dims=keep)
        everything = tuple(range(len(shape)))
        for name, function in (
            ("any_true", numpy.any),
            ("all_true", numpy.all),
            ("count_nonzero", numpy.count_nonzero),
        ):
            counted = in_numpy(lambda x: numpy.asarray(function(x, axes or everything, keepdims=keep)))
            for make in (booleans(*shape), integers(0, 2, *shape), integers(0, 2, *shape, dtype="u8")):
                file.case(name, counted, [make], axes=axes, keep_dims=keep)
    for name, function in (("any_true", torch.any), ("all_true", torch.all), ("count_nonzero", torch.count_nonzero)):
        rows = [[0.0, NAN, 0.0], [1.0, 2.0, INFINITY], [0.0, -0.0, 0.0]]
        file.case(name, lambda x: function(x, 1), [values(rows)], "f32", gradient=False, axes=(1,))
    for zeros in ([2.0, 0.0, 3.0], [0.0, 4.0, 0.0]):
        file.case("prod", lambda x: x.prod(), [values(zeros)], "f64", axes=())
        file.case("cumprod", lambda x: x.cumprod(0), [values(zeros)], "f64", second=False, axis=0)
    for make in (*(integers(1, 9, 3, 3, dtype=dtype) for dtype in ("i32", "u8", "i8")), booleans(4)):
        file.case("prod", lambda x: x.prod(), [make], axes=())


def write_sums(file):
    for name in ("cumsum", "cumprod"):
        reference = getattr(torch, name)
        for dtype in DTYPES:
            for shape, axis in (((3, 5), 0), ((2, 3, 4), -2), ((7,), 0), ((2, 0), 1)):
                second = name == "cumsum" or dtype == "f64"
                file.case(
                    name, lambda x: reference(x, axis), [normal(*shape)], dtype, second=second, widened=True, axis=axis
                )
        for dtype in ("i32", "i64"):
            file.case(name, lambda x: reference(x, 1), [integers(-3, 3, 3, 4, dtype=dtype)], axis=1)
        row = [1.0, INFINITY, 2.0, -INFINITY, NAN, 1.0]
        file.case(name, lambda x: reference(x, 0), [values(row)], "f32", gradient=False, axis=0)
        for make in (integers(50, 100, 5, dtype="u8"), integers(-100, -50, 5, dtype="i8"), booleans(5)):
            file.case(name, lambda x: reference(x, 0), [make], axis=0)


def write_extremes(file):
    for name in ("cummax", "cummin"):
        running = lambda x: tuple(getattr(torch, name)(x, axis))
        for shape, axis in (((4, 6), 0), ((2, 3, 4), -2), ((7,), 0), ((2, 0), 1), ((), 0)):
            for dtype in DTYPES:
                file.case(name, running, [distinct(*shape)], dtype, axis=axis)
            for dtype in ("i64", "u8"):
                file.case(name, running, [integers(0, 4, *shape, dtype=dtype)], axis=axis)
        axis = -1
        rows = [[3.0, NAN, -INFINITY, NAN, INFINITY, 1.0], [-INFINITY, 0.0, -0.0, 2.0, INFINITY, INFINITY]]
        file.case(name, running, [values(rows)], "f32", second=False, axis=axis)
        file.case(name, running, [booleans(2, 5)], axis=axis)
    for shape, axis in (((4, 6), 0), ((2, 3, 4), -2), ((7,), 0), ((2, 0), 1), ((), 0)):
        for dtype in DTYPES:
            file.case("logcumsumexp", lambda x: x.logcumsumexp(axis), [normal(*shape)], dtype, widened=True, axis=axis)
    rows = [
        [1000.0, 1001.0, -1000.0],
        [-INFINITY, -INFINITY, 2.0],
        [1.0, INFINITY, INFINITY],
        [1.0, NAN, 2.0],
        [-INFINITY, 1.0, -INFINITY],
    ]
    file.case("logcumsumexp", lambda x: x.logcumsumexp(1), [values(rows)], "f32", gradient=False, axis=1)
    as_f32 = lambda x: x.float().logcumsumexp(0)
    file.case("logcumsumexp", as_f32, [integers(-9, 9, 3, 4)], axis=0)


def last_axis(x, axes):
    """The axes to reduce as one, the last."""
    axes = sorted(axis % x.dim() for axis in axes or range(x.dim()))
    others = [axis for axis in range(x.dim()) if axis not in axes]
    return x.permute(*others, *axes).flatten(len(others))


def write_middles(file):
    for shape, axes, keep in SHAPES[:4]:
        kept = [1 if not axes or axis - len(shape) in axes or axis in axes else n for axis, n in enumerate(shape)]

        def reduced(x, function):
            result = function(last_axis(x, axes))
            return result.reshape(kept) if keep else result

        for dtype in DTYPES:
            middle = lambda x: reduced(x, lambda lines: lines.median(-1).values)
            file.case("median", middle, [distinct(*shape)], dtype, axes=axes, keep_dims=keep)
            for q in (0.0, 0.3, 0.5, 1.0):
                part = lambda x: reduced(x, lambda lines: lines.quantile(q, -1))
                file.case(
                    "quantile", part, [distinct(*shape)], dtype, widened=True, q=q, axes=axes, keep_dims=keep
                )
        for dtype in ("i64", "u8"):
            numbers = integers(0, 9, *shape, dtype=dtype)
            file.case("median", lambda x: reduced(x, lambda y: y.median(-1).values), [numbers], axes=axes, keep_dims=keep)
    rows = [[1.0, NAN, 2.0], [INFINITY, 1.0, 2.0], [3.0, -INFINITY, 1.0]]
    halves = lambda x: x.quantile(0.5, 1)
    file.case("quantile", halves, [values(rows)], "f32", gradient=False, q=0.5, axes=(1,), keep_dims=False)
    file.case("quantile", lambda x: x.float().quantile(0.25, 1), [integers(-9, 9, 3, 5)], q=0.25, axes=(1,))


def write_search(file):
    def in_order(low, high, *shape, dtype="i64"):
        return lambda random: numpy.sort(random.randint(low, high, shape), -1).astype(dtype)

    for right in (False, True):
        search = lambda line, x: torch.searchsorted(line, x, right=right)
        for lines, shape in (((8,), (5,)), ((1,), (2, 3)), ((13,), ()), ((0,), (3,)), ((2, 7), (2, 5)), ((2, 3, 4), (2, 3, 9))):
            for dtype in DTYPES:
                inputs = [in_order(-9, 9, *lines, dtype="float64"), integers(-10, 10, *shape, dtype="f64")]
                file.case("searchsorted", search, inputs, dtype, gradient=False, right=right)
            for dtype in ("i64", "i32", "u8"):
                inputs = [in_order(0, 9, *lines, dtype={"i64": "int64", "i32": "int32", "u8": "uint8"}[dtype])]
                file.case("searchsorted", search, [*inputs, integers(0, 10, *shape, dtype=dtype)], right=right)
        line = [-INFINITY, 0.0, 1.0, 1.0, INFINITY, NAN, NAN]
        wanted = [-INFINITY, NAN, INFINITY, 1.0, -0.0, 5.0, -1.0]
        in_numpy_order = in_numpy(lambda a, v: numpy.searchsorted(a, v, "right" if right else "left"))
        file.case("searchsorted", in_numpy_order, [values(line), values(wanted)], "f64", gradient=False, right=right)


def write_order(file):
    odd = values([[3.0, NAN, -INFINITY, 3.0, INFINITY, -0.0, 0.0], [1.0, 1.0, 1.0, 2.0, NAN, NAN, 0.0]])
    for descending in (False, True):
        in_order = lambda x: tuple(torch.sort(x, stable=True, dim=axis, descending=descending))
        options = {"descending": descending}
        for axis in (0, -1):
            for dtype in DTYPES:
                file.case("sort", in_order, [distinct(4, 6)], dtype, axis=axis, **options)
            for dtype in ("i64", "u8"):
                file.case("sort", in_order, [integers(0, 9, 4, 6, dtype=dtype)], axis=axis, **options)
            file.case(
                "argsort", lambda x: in_order(x)[1], [distinct(4, 6)], "f32", gradient=False, axis=axis, **options
            )
        axis = -1
        file.case("sort", in_order, [odd], "f32", second=False, axis=axis, **options)
        file.case("argsort", lambda x: in_order(x)[1], [odd], "f64", gradient=False, axis=axis, **options)
        file.case("sort", in_order, [normal(2, 0)], "f32", axis=axis, **options)
    for largest in (True, False):
        for count, axis in ((1, 0), (3, -1), (0, 1)):
            reference = lambda x: tuple(torch.topk(x, count, axis, largest))
            for dtype in DTYPES:
                file.case("topk", reference, [distinct(4, 6)], dtype, count=count, axis=axis, largest=largest)


def write(file):
    file.special = ("topk", "median")
    file.special_results = ("prod",)  # a factor's gradient is the product of the others: PyTorch divides by it
    write_products(file)
    write_sums(file)
    write_order(file)
    write_extremes(file)
    write_middles(file)
    write_search(file)
    for dtype in ("f64", "bf16", "f16"):
        order = lambda x: torch.sort(x, dim=-1, stable=True)[1]
        file.case("argsort", order, [distinct(4, 6)], dtype, gradient=False, axis=-1)
    for dtype in ("i64", "i32", "u8"):
        order = lambda x: torch.sort(x, dim=-1, stable=True)[1]
        file.case("argsort", order, [integers(0, 9, 4, 6, dtype=dtype)], axis=-1)
    file.case("prod", lambda x: x.prod(), [normal()], "f32", axes=())
