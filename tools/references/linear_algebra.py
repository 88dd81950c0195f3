# SPDX-License-Identifier: Apache-2.0
"""Systems of equations, determinants and factorizations. Signs of vectors are the library's own: what is compared does
not depend on them."""

import numpy
import torch

from reference_file import SPECIAL, in_numpy, integers, normal, values, with_one

ALL = ("f64", "f32", "bf16", "f16")
WIDE = ("f64", "f32")
SQUARE = ((3, 3), (2, 4, 4), (2, 1, 2, 2), (1, 1), (0, 3, 3), (0, 0))


def regular(*shape):
    """Far from singular."""
    return lambda random: random.standard_normal(shape) * 0.4 + 2 * numpy.eye(shape[-1])


def independent(*shape):
    """Its first columns are."""
    return lambda random: random.standard_normal(shape) * 0.4 + 2 * numpy.eye(*shape[-2:])


def positive(*shape):
    def made(random):
        x = random.standard_normal(shape) * 0.5
        return x @ x.swapaxes(-1, -2) + numpy.eye(shape[-1])

    return made


def spectrum(*shape, symmetric=False):
    """With singular values, or eigenvalues of both signs, that lie apart."""

    def made(random):
        rows, columns = shape[-2:]
        count = min(rows, columns)
        square = lambda n: numpy.linalg.qr(random.standard_normal((*shape[:-2], n, n)))[0]
        left = square(rows)
        right = left if symmetric else square(columns)
        found = numpy.arange(count) * 0.9 + (-1.2 if symmetric else 0.7)
        return left[..., :count] * found @ right[..., :count].swapaxes(-1, -2)

    return made


def weights(x):
    return torch.arange(1, x.shape[-1] + 1, dtype=x.dtype) / max(1, x.shape[-1])


def joined(a, b):
    """The sum of columns' products, each with a weight of its own."""
    return (a * weights(a)) @ b.mT


def qr(x):
    q, r = torch.linalg.qr(x)
    signs = torch.diagonal(r, dim1=-2, dim2=-1).sign().detach()
    return q * signs.unsqueeze(-2), r * signs.unsqueeze(-1)


def svd(x):
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    return s, joined(u, vh.mT), joined(u, u), joined(vh.mT, vh.mT)


def symmetric_part(x):
    return (x + x.mT) / 2


def eigh(x):
    found, vectors = torch.linalg.eigh(symmetric_part(x))
    return found, joined(vectors, vectors)


def write_systems(file):
    for dtype in ALL:
        narrow = dtype in ("bf16", "f16")
        for shape in SQUARE[: 2 if narrow else None]:
            file.case("cholesky", torch.linalg.cholesky, [positive(*shape)], dtype, widened=True)
            file.case("inverse", torch.linalg.inv, [regular(*shape)], dtype, widened=True)
            file.case("determinant", torch.linalg.det, [regular(*shape)], dtype, widened=True)
            file.case("slogdet", lambda x: tuple(torch.linalg.slogdet(x)), [regular(*shape)], dtype, widened=True)
    for dtype in WIDE:
        for matrix, right in (
            ((3, 3), (3,)),
            ((3, 3), (3, 2)),
            ((2, 3, 3), (2, 3, 1)),
            ((2, 1, 2, 2), (3, 2, 2)),
            ((3, 3), (2, 3, 2)),
            ((1, 1), (1, 1)),
            ((0, 3, 3), (0, 3, 2)),
            ((3, 3), (3, 0)),
            ((0, 0), (0, 2)),
        ):
            file.case("solve", torch.linalg.solve, [regular(*matrix), normal(*right)], dtype)
            if len(right) == 1:
                continue
            for upper in (False, True):
                for unit in (False, True):
                    reference = lambda a, b: torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)
                    options = {"upper": upper, "unit": unit}
                    file.case("solve_triangular", reference, [regular(*matrix), normal(*right)], dtype, **options)
    file.case("determinant", lambda x: torch.linalg.det(x.float()), [values([[1, 2], [3, 5]], "i64")])
    file.case("inverse", lambda x: torch.linalg.inv(x.float()), [values([[1, 2], [3, 5]], "i64")])
    file.case("solve", lambda a, b: torch.linalg.solve(a.float(), b.float()), [values([[1, 2], [3, 5]], "i64"), integers(1, 9, 2)])
    singular = [[1.0, 2.0], [2.0, 4.0]]
    for dtype in WIDE:
        file.case("determinant", torch.linalg.det, [values(singular)], dtype, gradient=False)
        file.case("slogdet", lambda x: tuple(torch.linalg.slogdet(x)), [values(singular)], dtype, gradient=False)
        for odd in SPECIAL[1:]:  # the sign of NaN is NaN here, 0 in PyTorch and 1 in NumPy
            made = with_one(odd, regular(3, 3))
            file.case("slogdet", in_numpy(numpy.linalg.slogdet), [made], dtype, gradient=False)


def write_factorizations(file):
    for dtype in WIDE:
        near = {} if dtype == "f64" else {"tolerance": 2e-5}
        for shape in ((3, 3), (5, 3), (3, 5), (2, 4, 3), (2, 2, 3), (1, 1), (4, 1), (1, 4), (0, 3, 2), (3, 0)):
            row = shape[-2] == 1  # a number with a sign: the second gradient is 0
            file.case("qr", qr, [independent(*shape)], dtype, second=not row, **near)
            file.case("svd", svd, [spectrum(*shape)], dtype, **near)
            file.case("svdvals", torch.linalg.svdvals, [spectrum(*shape)], dtype, **near)
        for shape in ((3, 3), (2, 4, 4), (1, 1), (0, 3, 3), (0, 0)):
            file.case("eigh", eigh, [spectrum(*shape, symmetric=True)], dtype, **near)
            values_alone = lambda x: torch.linalg.eigvalsh(symmetric_part(x))
            file.case("eigvalsh", values_alone, [spectrum(*shape, symmetric=True)], dtype, **near)
        file.case("eigh", eigh, [normal(3, 3)], dtype, **near)


def write(file):
    file.special_results = ("solve", "solve_triangular", "determinant", "inverse")
    write_systems(file)
    write_factorizations(file)
