# SPDX-License-Identifier: Apache-2.0
"""More elementwise functions: trigonometric, powers, rounding, bits, activations."""

import numpy
import torch
from torch.nn import functional

from elementwise import NAN, INFINITY, SPECIAL, binary, unary
from reference_file import booleans, integers, normal, uniform, values


def write_functions(file):
    unary(file, "rsqrt", torch.rsqrt, (0.05, 3), widened=True)
    unary(file, "exp2", torch.exp2, widened=True)
    unary(file, "expm1", torch.expm1)
    unary(file, "log2", torch.log2, (0.05, 3), each=False)
    unary(file, "log10", torch.log10, (0.05, 3), each=False)
    for name, low, high in (("sin", -9, 9), ("cos", -9, 9), ("tan", -1.4, 1.4)):
        reference = getattr(torch, name)
        unary(file, name, reference, (low, high), each=False)
        for dtype in ("f32", "f64"):
            file.case(name, reference, [values([10.0, -100.0, 1234.5, 31415.9, -1e5])], dtype, second=False)
    for name, low, high in (
        ("asin", -0.95, 0.95),
        ("acos", -0.95, 0.95),
        ("atan", -3, 3),
        ("sinh", -3, 3),
        ("cosh", -3, 3),
    ):
        unary(file, name, getattr(torch, name), (low, high), each=False)
    for name, low, high in (("asinh", -3, 3), ("acosh", 1.1, 3), ("atanh", -0.9, 0.9), ("erfinv", -0.9, 0.9)):
        unary(file, name, getattr(torch, name), (low, high), each=False, widened=True, special_gradient=name != "acosh")
    for name in ("floor", "ceil", "round", "trunc"):
        unary(file, name, getattr(torch, name), whole=lambda x: x)
        halves = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 4503599627370497.5, 1e300, 0.49999999999999994]
        file.case(name, getattr(torch, name), [values(halves)], "f64", each=True, signed_zeros=True)
    like_numpy = lambda x: torch.where(x.isnan(), x, torch.sign(x))  # PyTorch's sign of NaN is 0
    unary(file, "sign", like_numpy, whole=numpy.sign, second=False, special_gradient=False, signed_zeros=False)
    unary(file, "clip", lambda x: torch.clamp(x, -1.5, 0.5), ints=False, parameters=[-1.5, 0.5])
    unary(file, "reciprocal", torch.reciprocal, (0.2, 3), widened=True)


def write_activations(file):
    unary(file, "gelu_tanh", lambda x: functional.gelu(x, approximate="tanh"), each=False, widened=True, special=FINITE)
    unary(file, "elu", functional.elu, each=False, special_gradient=False, widened=True, parameters=[1.0, 1.0])
    unary(
        file,
        "elu",
        lambda x: functional.elu(x, 0.5),
        each=False,
        special_gradient=False,
        widened=True,
        parameters=[0.5, 1.0],
    )
    unary(
        file,
        "celu",
        lambda x: functional.celu(x, 1.5),
        special_gradient=False,
        each=False,
        widened=True,
        parameters=[1.5],
        ints=False,
    )
    unary(file, "selu", functional.selu, each=False, special_gradient=False, widened=True, ints=False)
    unary(file, "softplus", functional.softplus, each=False, widened=True, parameters=[1.0], special=FINITE)
    unary(
        file,
        "softplus",
        lambda x: functional.softplus(x, 2.0),
        each=False,
        widened=True,
        parameters=[2.0],
        special=FINITE,
    )
    unary(file, "hard_tanh", functional.hardtanh, special_gradient=False, parameters=[-1.0, 1.0])
    unary(
        file,
        "hard_swish",
        functional.hardswish,
        special_gradient=False,
        signed_zeros=False,
        each=False,
        widened=True,
        second=False,
        special=FINITE,
    )
    unary(
        file, "hard_sigmoid", functional.hardsigmoid, tolerance=1e-7, each=False, widened=True, second=False, ints=False
    )
    unary(file, "relu6", functional.relu6, special_gradient=False, ints=False)
    unary(file, "mish", functional.mish, each=False, widened=True, special=FINITE, ints=False)
    unary(file, "softsign", functional.softsign, each=False, widened=True, special=FINITE, ints=False)
    unary(file, "log_sigmoid", functional.logsigmoid, signed_zeros=False, each=False, widened=True, ints=False)
    unary(
        file,
        "hard_shrink",
        lambda x: functional.hardshrink(x, 0.7),
        special_gradient=False,
        parameters=[0.7],
        ints=False,
    )
    soft = lambda x: functional.softshrink(x, 0.7)
    unary(
        file, "soft_shrink", soft, special_gradient=False, signed_zeros=False, each=False, parameters=[0.7], ints=False
    )
    unary(file, "threshold", lambda x: functional.threshold(x, 0.3, -2.0), parameters=[0.3, -2.0], ints=False)
    for dtype in ("f64", "f32", "bf16", "f16"):
        of_channels = lambda x, slope: functional.prelu(x, slope.reshape(-1))
        file.case("prelu", functional.prelu, [normal(3, 4), normal(4)], dtype, widened=True)
        file.case("prelu", of_channels, [normal(2, 3, 4), normal(3, 1)], dtype, widened=True)
        file.case("prelu", functional.prelu, [normal(2, 3, 3), normal(3)], dtype, widened=True)
        file.case("prelu", functional.prelu, [normal(5), normal(1)], dtype, widened=True)
        file.case("lerp", torch.lerp, [normal(3, 4), normal(3, 4), uniform(0, 1, 3, 4)], dtype, widened=True)
    for dtype in ("f64", "f32"):
        file.case("prelu", functional.prelu, [values(SPECIAL), values([0.25])], dtype, gradient=False, signed_zeros=True)
    ends = [values([NAN, INFINITY, -INFINITY, 1.0, 1.0]), values([1.0, 1.0, 1.0, INFINITY, NAN])]
    file.case("lerp", torch.lerp, [*ends, values([0.25])], "f32", second=False)
    file.case("lerp", torch.lerp, [normal(2, 1, 4), normal(3, 1), uniform(0, 1, 4)], "f32")
    file.case("lerp", torch.lerp, [*ends, values([0.75])], "f32", second=False)
    file.case("lerp", torch.lerp, [*ends, values([1.0])], "f32", second=False)


FINITE = [x for x in SPECIAL if abs(x) < INFINITY or x != x]


def whole_power(a, b):
    return torch.pow(torch.from_numpy(a), torch.from_numpy(b)).numpy()


def write_pairs(file):
    binary(file, "remainder", torch.remainder, low=0.3, whole=numpy.remainder, special=False)
    binary(file, "fmod", torch.fmod, low=0.3, whole=numpy.fmod, special=False)
    signs = [values([5.5, -5.5, 5.5, -5.5, 6.0, -6.0]), values([2.0, 2.0, -2.0, -2.0, 3.0, 3.0])]
    for name in ("remainder", "fmod"):
        file.case(name, getattr(torch, name), signs, "f64")
        file.case(name, getattr(torch, name), signs, "f32")
        odd = [values([1.0, NAN, INFINITY, 1.0, -1.0, 0.0]), values([NAN, 1.0, 2.0, INFINITY, INFINITY, 0.0])]
        file.case(name, getattr(torch, name), odd, "f64", gradient=False)
    binary(file, "pow", torch.pow, low=0.2, special=False)
    bases, exponents = numpy.meshgrid(
        [NAN, INFINITY, -INFINITY, 0.0, -0.0, 2.0, -2.0, 1.0, -1.0],
        [NAN, INFINITY, -INFINITY, 0.0, 3.0, -2.0, 0.5, -0.5],
    )
    for dtype in ("f32", "f64"):
        file.case(
            "pow", torch.pow, [values(bases.ravel()), values(exponents.ravel())], dtype, gradient=False, each=True
        )
        smooth = [values([-2.0, -1.5, 0.5, 3.0, 0.0]), values([3.0, 2.0, -2.5, 0.0, 2.0])]
        file.case("pow", torch.pow, smooth, dtype, second=False, each=True)
    for dtype in ("i32", "i64", "u8"):
        file.case("pow", torch.pow, [integers(0, 5, 3, 4, dtype=dtype), integers(0, 6, 4, dtype=dtype)])
    binary(file, "atan2", torch.atan2, low=-3.0)
    binary(file, "logaddexp", torch.logaddexp, low=-3.0, special=False)
    for dtype in ("f64", "f32"):
        far = [values([1000.0, -1000.0, 0.0, -INFINITY, INFINITY]), values([0.0, -1001.0, 800.0, 1.0, 1.0])]
        file.case("logaddexp", torch.logaddexp, far, dtype, second=False)
        odd = [values([NAN, INFINITY, -INFINITY, 1.0]), values([1.0, INFINITY, -INFINITY, NAN])]
        file.case("logaddexp", torch.logaddexp, odd, dtype, gradient=False)


def write_bits(file):
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        binary(file, name, None, floating=False, whole=getattr(numpy, name))
        file.case(name, getattr(torch, name), [booleans(3, 4), booleans(4)])
    for make in (booleans(5), integers(-9, 9, 5), integers(0, 255, 5, dtype="u8")):
        file.case("bitwise_not", torch.bitwise_not, [make])
    odd = values([NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.5])
    for name in ("logical_and", "logical_or", "logical_xor"):
        reference = getattr(torch, name)
        file.case(name, reference, [booleans(3, 4), booleans(4)])
        file.case(name, reference, [odd, values([0.0, 1.0, 0.0, 1.0, 0.0, 2.0])], "f32", gradient=False)
        file.case(name, reference, [integers(0, 2, 5), integers(0, 2, 5)])
    for name in ("logical_not", "isnan", "isinf", "isfinite"):
        for dtype in ("f64", "f32", "bf16", "f16"):
            file.case(name, getattr(torch, name), [odd], dtype, gradient=False)
        file.case(name, getattr(torch, name), [integers(0, 2, 5)])
    for dtype in ("f64", "f32", "bf16"):
        file.case("nan_to_num", torch.nan_to_num, [odd], dtype, second=False)
        given = lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0)
        file.case("nan_to_num", given, [odd], dtype, second=False, parameters=[1.0, 2.0, -3.0])


def write(file):
    file.special = ("softplus", "mish")
    file.special_results = ("gelu_tanh", "softsign")  # whose slopes at infinity are NaN in PyTorch
    write_functions(file)
    write_activations(file)
    write_pairs(file)
    write_bits(file)
