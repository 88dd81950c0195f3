# SPDX-License-Identifier: Apache-2.0
"""The elementwise operations: by the names of the structs in backend/elementwise."""

import numpy
import torch
from torch.nn import functional

from reference_file import booleans, integers, normal, uniform, values

NAN, INFINITY = float("nan"), float("inf")
SPECIAL = [NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0, -1.0, 1e-3, -1e-3, 30.0, -30.0]
SPECIAL_BUT_INFINITY = [x for x in SPECIAL if x != INFINITY]  # PyTorch's gelu gives NaN there in f32
DENORMAL = {"f32": [1e-40, -1e-40, 1e-45, 1.2e-38], "f64": [1e-310, -1e-310, 5e-324, 2.3e-308]}
WHOLE = {
    "i32": [-(2**31), -7, -1, 0, 1, 6, 2**31 - 1],
    "i64": [-(2**63), -7, -1, 0, 1, 6, 2**63 - 1],
    "i8": [-128, -7, -1, 0, 1, 6, 127],
    "u8": [0, 1, 2, 7, 127, 128, 255],
}

ALL = (-INFINITY, INFINITY)


def unary(
    file,
    name,
    reference,
    domain=ALL,
    whole=None,
    second=True,
    special=SPECIAL,
    special_gradient=True,
    signed_zeros=True,
    each=True,
    ints=True,
    **attributes,
):
    """`domain`: where plain samples lie; `whole`: NumPy's function for integers, without which `ints` are taken as f32;
    `each`: see ReferenceFile.case. Where PyTorch has no rule of its own, `special_gradient` and `signed_zeros` are
    not compared."""
    low, high = max(domain[0], -3.0), min(domain[1], 3.0)

    def add(inputs, dtype):
        file.case(name, reference, inputs, dtype, second=second, **({"each": True} if each else {}), **attributes)

    add([uniform(low, high, 3, 7)], "f64")
    add([uniform(low, high, 37)], "f32")
    add([uniform(low, high, 2, 3, 5)], "bf16")
    add([uniform(low, high, 5, 4)], "f16")
    add([uniform(low, high)], "f64")
    add([uniform(low, high, 0, 3)], "f32")
    for dtype in ("f32", "f64") if special else ():
        options = {"gradient": special_gradient, "second": False, "each": True} | attributes
        if signed_zeros:
            options["signed_zeros"] = True
        file.case(name, reference, [values(special)], dtype, **options)
        file.case(name, reference, [values(DENORMAL[dtype])], dtype, gradient=False, each=True, **attributes)
    if ints and not whole:
        some = [x for x in range(-3, 4) if low <= x <= high]
        file.case(name, lambda x: reference(x.float()), [values(some, "i32")], **attributes)
    for dtype in WHOLE if whole else ():
        file.case(name, lambda x: torch.from_numpy(whole(x.numpy())), [values(WHOLE[dtype], dtype)], **attributes)


def pairs(listed):
    return [a for a in listed for _ in listed], [b for _ in listed for b in listed]


def binary(file, name, reference, low=-3.0, whole=None, floating=True, second=True, special=True, **attributes):
    if floating:
        for dtype in ("f64", "f32", "bf16", "f16"):
            inputs = [uniform(low, 3.0, 3, 5), uniform(low, 3.0, 3, 5)]
            file.case(name, reference, inputs, dtype, second=second, each=True, **attributes)
        # Sums over broadcast axes cancel: relative to the largest.
        for a, b in (((4, 1, 3), (2, 1)), ((2, 3), ()), ((1,), (3, 2)), ((0, 1), (3,)), ((), ())):
            file.case(
                name, reference, [uniform(low, 3.0, *a), uniform(low, 3.0, *b)], "f32", second=second, **attributes
            )
    if floating and special:
        a, b = pairs([NAN, INFINITY, -INFINITY, 0.0, -0.0, 2.0, -1.5])
        for dtype in ("f32", "f64"):
            file.case(
                name, reference, [values(a), values(b)], dtype, second=False, each=True, signed_zeros=True, **attributes
            )
            a1, b1 = pairs(DENORMAL[dtype])
            file.case(name, reference, [values(a1), values(b1)], dtype, gradient=False, each=True, **attributes)
    for dtype in WHOLE if whole else ():
        a, b = pairs(WHOLE[dtype])
        with numpy.errstate(all="ignore"):
            file.case(
                name,
                lambda x, y: torch.from_numpy(numpy.asarray(whole(x.numpy(), y.numpy()))),
                [values(a, dtype), values(b, dtype)],
                **attributes,
            )
            file.case(
                name,
                lambda x, y: torch.from_numpy(numpy.asarray(whole(x.numpy(), y.numpy()))),
                [integers(0, 100, 3, 1, 4, dtype=dtype), integers(1, 9, 2, 1, dtype=dtype)],
                **attributes,
            )


def write_comparisons(file):
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        reference = getattr(numpy, name)
        in_torch = {"equal": torch.eq, "not_equal": torch.ne}.get(name) or getattr(torch, name)
        binary(file, name, in_torch, whole=reference, second=False)
    for name, reference in (("equal", torch.eq), ("not_equal", torch.ne)):
        file.case(name, reference, [booleans(3, 4), booleans(4)])


def write(file):
    unary(file, "negate", torch.neg, whole=numpy.negative)
    unary(file, "abs", torch.abs, whole=numpy.abs)
    unary(file, "square", torch.square, whole=numpy.square)
    unary(file, "sqrt", torch.sqrt, (0.05, 3))
    unary(file, "exp", torch.exp)
    unary(file, "log", torch.log, (0.05, 3))
    unary(file, "log1p", torch.log1p, (-0.9, 3))
    unary(file, "tanh", torch.tanh)
    unary(file, "erf", torch.erf, widened=True)
    unary(file, "sigmoid", torch.sigmoid)
    unary(file, "relu", torch.relu, whole=lambda x: numpy.maximum(x, x.dtype.type(0)))
    unary(file, "leaky_relu", functional.leaky_relu, parameters=[0.01])
    unary(file, "leaky_relu", lambda x: functional.leaky_relu(x, 0.3), parameters=[0.3])
    unary(file, "gelu", functional.gelu, each=False, special=SPECIAL_BUT_INFINITY)
    unary(file, "silu", functional.silu, each=False)
    binary(file, "add", torch.add, whole=numpy.add)
    binary(file, "subtract", torch.subtract, whole=numpy.subtract)
    binary(file, "multiply", torch.multiply, whole=numpy.multiply)
    binary(file, "divide", torch.divide)
    binary(file, "divide", None, floating=False, whole=lambda a, b: (a.astype("f4") / b.astype("f4")))
    floored = lambda a, b: torch.div(a, b, rounding_mode="floor")
    binary(file, "floor_divide", floored, whole=numpy.floor_divide)
    binary(file, "maximum", torch.maximum, whole=numpy.maximum)
    binary(file, "minimum", torch.minimum, whole=numpy.minimum)
    for name in ("maximum", "minimum"):
        file.case(name, getattr(torch, name), [booleans(3, 4), booleans(4)])
    write_comparisons(file)
