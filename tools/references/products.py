# SPDX-License-Identifier: Apache-2.0
"""Matrix products, Einstein sums, convolution and pooling."""

import numpy
import torch
from torch.nn import functional

from reference_file import distinct, in_numpy, integers, normal, values

NAN, INFINITY = float("nan"), float("inf")
DTYPES = ("f64", "f32", "bf16", "f16")


def write_matmul(file):
    shapes = [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((4,), (4, 3)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 3, 4), (4,)),
        ((1, 1), (1, 1)),
        ((3, 0), (0, 2)),
        ((0, 3), (3, 2)),
        ((2, 0, 3), (3, 2)),
    ]
    for dtype in DTYPES:
        for a, b in shapes if dtype in ("f64", "f32") else shapes[:4]:
            file.case("matmul", torch.matmul, [normal(*a), normal(*b)], dtype, widened=True)
    for m, k, n in ((17, 33, 19), (24, 20, 8), (3, 130, 5), (1, 40, 25)):
        file.case("matmul", torch.matmul, [normal(m, k), normal(k, n)], "f32", second=False)
    as_f32 = in_numpy(lambda a, b: a.astype("float32") @ b.astype("float32"))
    file.case("matmul", as_f32, [integers(-9, 9, 3, 4), integers(-9, 9, 4, 2)])
    special = [[1.0, INFINITY], [NAN, 2.0], [0.0, -INFINITY]]
    file.case("matmul", torch.matmul, [values(special), values([[1.0, 0.0], [2.0, 1.0]])], "f32", second=False)


def write_einsum(file):
    for equation, *shapes in (
        ("i,j->ij", (3,), (4,)),
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
        ("ii->i", (4, 4)),
        ("ii", (4, 4)),
        ("i->", (5,)),
        ("...ij->...ji", (2, 3, 4)),
        ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
        ("ij,j", (3, 4), (4,)),
        ("abc,cd,de->abe", (2, 3, 4), (4, 2), (2, 3)),
        ("ij,ij->", (3, 4), (3, 4)),
        ("...i,...i->...", (3, 4), (2, 1, 4)),
        ("ijk->ki", (2, 3, 4)),
        ("ij,kj->ik", (0, 4), (3, 4)),
        ("ba", (2, 3)),
        ("iij->j", (3, 3, 2)),
    ):
        for dtype in DTYPES:
            reference = lambda *x: torch.einsum(equation, *x)
            file.case("einsum", reference, [normal(*shape) for shape in shapes], dtype, widened=True, equation=equation)


def write_einsum_of_integers(file):
    in_f32 = in_numpy(lambda a, b: numpy.einsum("ij,jk->ik", a.astype("float32"), b.astype("float32")))
    file.case("einsum", in_f32, [integers(-9, 9, 2, 3), integers(-9, 9, 3, 2)], equation="ij,jk->ik")


def write_products(file):
    for dtype in DTYPES:
        for a, b, count in (((3, 4), (4, 2), 1), ((2, 3, 4), (3, 4, 5), 2), ((2,), (3,), 0), ((2, 3), (2, 3), 2)):
            reference = lambda x, y: torch.tensordot(x, y, count)
            file.case("tensordot", reference, [normal(*a), normal(*b)], dtype, widened=True, count=count)
        for a, b, left, right in (((2, 3, 4), (5, 4, 2), (0, -1), (2, 1)), ((0, 3), (3, 2), (1,), (0,))):
            reference = lambda x, y: torch.tensordot(x, y, (left, right))
            file.case("tensordot", reference, [normal(*a), normal(*b)], dtype, widened=True, left=left, right=right)
        file.case("outer", torch.outer, [normal(3), normal(4)], dtype)
        file.case("outer", torch.outer, [normal(0), normal(4)], dtype)
        for beta, alpha in ((1.0, 1.0), (0.5, -2.0), (0.0, 1.0)):
            for shape, a, b in (((3, 5), (3, 4), (4, 5)), ((5,), (3, 4), (4, 5)), ((2, 3, 2), (2, 3, 4), (2, 4, 2))):
                reference = torch.addmm if len(a) == 2 else torch.baddbmm
                scaled = lambda x, y, z: reference(x, y, z, beta=beta, alpha=alpha)
                file.case(
                    "addmm",
                    scaled,
                    [normal(*shape), normal(*a), normal(*b)],
                    dtype,
                    widened=True,
                    tolerance={"bf16": 2.0**-6, "f16": 2.0**-9}.get(dtype, 0.0),  # products are rounded before sums
                    beta=beta,
                    alpha=alpha,
                )
    special, plain = values([[1.0, INFINITY], [NAN, 2.0]]), values([[1.0, 0.5], [2.0, 1.0]])
    file.case("addmm", torch.addmm, [special, plain, plain], "f32", second=False, beta=1.0, alpha=1.0)
    unread = lambda x, y, z: torch.addmm(x, y, z, beta=0)
    file.case("addmm", unread, [special, plain, plain], "f32", gradient=False, beta=0.0, alpha=1.0)
    file.case("tensordot", lambda x, y: torch.tensordot(x, y, 1), [special, plain], "f32", gradient=False, count=1)
    file.case("outer", torch.outer, [values([1.0, NAN, INFINITY]), values([2.0, 0.0])], "f32", second=False)
    file.case("outer", torch.outer, [integers(-9, 9, 3), integers(-9, 9, 2)])


def write_linear(file):
    activations = {"none": lambda x: x, "relu": functional.relu, "gelu": functional.gelu}
    for name, activation in activations.items():
        for dtype in DTYPES:
            for shape in ((6, 4), (2, 3, 4), (4,), (0, 4)):
                with_bias = lambda x, w, b: activation(functional.linear(x, w, b))
                file.case(
                    "linear", with_bias, [normal(*shape), normal(5, 4), normal(5)], dtype, widened=True, activation=name
                )
            without = lambda x, w: activation(functional.linear(x, w))
            file.case("linear", without, [normal(3, 4), normal(5, 4)], dtype, widened=True, activation=name)
    wide = lambda x, w, b: functional.gelu(functional.linear(x, w, b))
    file.case("linear", wide, [normal(17, 9), normal(20, 9), normal(20)], "f32", second=False, activation="gelu")


def write_convolution(file):
    for stride, padding, dilation in (
        ((1, 1), (0, 0), (1, 1)),
        ((2, 1), (1, 2), (1, 1)),
        ((1, 2), (2, 1), (2, 1)),
        ((2, 2), (0, 3), (1, 3)),
    ):
        for kernel in ((3, 3), (1, 2)):
            for dtype in DTYPES if kernel == (3, 3) else ("f32",):
                reference = lambda x, w, b=None: functional.conv2d(x, w, b, stride, padding, dilation)
                geometry = {"stride": stride, "padding": padding, "dilation": dilation}
                file.case(
                    "conv2d",
                    reference,
                    [normal(2, 2, 6, 7), normal(3, 2, *kernel), normal(3)],
                    dtype,
                    widened=True,
                    **geometry
                )
    plain = lambda x, w: functional.conv2d(x, w)
    file.case(
        "conv2d", plain, [normal(1, 1, 3, 3), normal(1, 1, 3, 3)], "f32", stride=(1, 1), padding=(0, 0), dilation=(1, 1)
    )
    file.case(
        "conv2d", plain, [normal(0, 2, 4, 4), normal(3, 2, 2, 2)], "f32", stride=(1, 1), padding=(0, 0), dilation=(1, 1)
    )
    for kernel, stride, padding in (((2, 2), (2, 2), (0, 0)), ((3, 2), (1, 2), (1, 1)), ((3, 3), (2, 1), (1, 0))):
        reference = lambda x: functional.max_pool2d(x, kernel, stride, padding)
        geometry = {"kernel": kernel, "stride": stride, "padding": padding}
        for dtype in DTYPES:
            file.case("max_pool2d", reference, [distinct(2, 2, 5, 6)], dtype, widened=True, **geometry)
        special = [[[[1.0, NAN, 2.0, -INFINITY], [0.0, 1.0, INFINITY, 3.0], [-INFINITY] * 4, [-INFINITY] * 4]]]
        file.case("max_pool2d", reference, [values(special)], "f32", second=False, **geometry)


def write(file):
    file.special = ("einsum", "linear", "conv2d")
    write_matmul(file)
    write_einsum(file)
    write_einsum_of_integers(file)
    write_products(file)
    write_linear(file)
    write_convolution(file)
