# SPDX-License-Identifier: Apache-2.0
"""Types, selection, shape and indexing."""

import numpy
import torch
from torch.nn import functional

from reference_file import DTYPES, booleans, distinct, in_numpy, integers, normal, typed, values

NAN, INFINITY = float("nan"), float("inf")

WIDE = ("f32", "f64")
NARROW = ("bf16", "f16")
INTEGERS = ("i32", "i64", "i8", "u8")


def write_types(file):
    for dtype in ("f32", "f64"):
        for to in ("f32", "f64", "bf16", "f16"):
            file.case("cast", lambda x: x.to(DTYPES[to]), [normal(3, 4)], dtype, to=to)
        for to in ("i32", "i64", "bool"):
            file.case("cast", lambda x: x.to(DTYPES[to]), [values([-2.7, -0.5, 0.0, 0.5, 1.9, 100.25])], dtype, to=to)
        steps = [1.0 + i / 1024 for i in range(16)] + [
            65504.0,
            65519.0,
            65520.0,
            1e-7,
            6e-8,
            3e-8,
            2e-8,
            3.4e38,
            float("inf"),
        ]
        for to in NARROW:
            file.case("cast", lambda x: x.to(DTYPES[to]), [values(steps)], dtype, gradient=False, to=to, each=True)
    for source in INTEGERS:
        for to in ("f32", "f64", "bf16", "f16", *INTEGERS, "bool"):
            file.case("cast", lambda x: x.to(DTYPES[to]), [integers(0, 120, 3, 4, dtype=source)], to=to)
    file.case("cast", lambda x: x.to(torch.int8), [values([-129, -128, 127, 128, 300], "i64")], to="i8")
    mask = booleans(3, 4)
    for dtype in (*WIDE, *NARROW):
        file.case("where", torch.where, [mask, normal(3, 4), normal(4)], dtype)
    file.case("where", torch.where, [booleans(2, 1, 3), normal(4, 1), normal()], "f32")
    file.case("where", torch.where, [booleans(0, 3), normal(3), normal(1, 3)], "f32")
    file.case("where", torch.where, [mask, integers(-9, 9, 3, 4), integers(-9, 9, 4)])
    file.case("select", torch.where, [mask, normal(3, 4), normal(3, 4)], "f32")
    for value in (2.5, float("-inf")):
        file.case(
            "masked_fill", lambda x, m: x.masked_fill(m, value), [normal(2, 3, 4), booleans(3, 4)], "f32", value=value
        )
    for dtype in ("f64", *NARROW):
        file.case("masked_fill", lambda x, m: x.masked_fill(m, 2.5), [normal(3, 4), booleans(3, 4)], dtype, value=2.5)
    for dtype in INTEGERS:
        whole = integers(0, 9, 3, dtype=dtype)
        file.case("masked_fill", lambda x, m: x.masked_fill(m, 1), [whole, booleans(3)], value=1.0)
    for shape in ((7,), (2, 3), (), (0,)):
        file.case("one_hot", lambda x: functional.one_hot(x, 5).to(torch.float32), [integers(0, 5, *shape)], classes=5)
    file.case("literal", lambda x: (x + 2, 2 - x, x * 0.5, 3 / x, x > 0, 0 <= x), [normal(3, 4)], "f32")
    file.case("literal", lambda x: (x + 2, 2 - x, x * 0.5, 3 / x, x > 0, 0 <= x), [normal(3, 4)], "bf16")
    file.case("literal", lambda x: (x + 2, 2 - x, x * 0.5, 3 / x, x > 0, 0 <= x), [integers(1, 9, 3, 4, dtype="i32")])
    two, half = torch.tensor(2), torch.tensor(0.5)
    functions = lambda x: (
        torch.atan2(x, two),
        torch.atan2(half, x),
        torch.logaddexp(x, half),
        torch.logaddexp(half, x),
        torch.logical_and(x, two),
        torch.logical_or(torch.tensor(False), x),
        torch.logical_xor(x, half),
        assigned(x, (slice(1, 3), -1), 2.5),
        assigned(x, (0,), 7),
    )
    for dtype in (*WIDE, *NARROW):
        file.case("literal_function", functions, [normal(3, 4)], dtype, widened=True)


def write_promotion(file):
    """Of every two types that PyTorch promotes as the library does: all but i8 beside u8."""
    for a in DTYPES:
        for b in DTYPES:
            if {a, b} in ({"i8", "u8"}, {"bool"}):
                continue
            one = [typed(integers(0, 2, 3) if t == "bool" else integers(1, 9, 3), t) for t in (a, b)]
            file.case("add", torch.add, one, gradient=False)


def write_shapes(file):
    for dtype in ("f64", "f32", "bf16", "i64", "bool"):
        make = {"i64": lambda *s: integers(-9, 9, *s), "bool": booleans}.get(dtype, normal)
        floating = dtype if dtype in DTYPES and dtype[0] in "fb" and dtype != "bool" else "f32"

        def add(operation, reference, lengths, **attributes):
            file.case(operation, reference, [make(*lengths)], floating, **attributes)

        add("reshape", lambda x: x.reshape(4, -1), (2, 6), shape=(4, -1))
        add("reshape", lambda x: x.reshape(()), (1, 1), shape=())
        add("reshape", lambda x: x.reshape(0, 5), (3, 0), shape=(0, 5))
        add("permute", lambda x: x.permute(2, 0, 1), (2, 3, 4), axes=(2, 0, 1))
        add("transpose", lambda x: x.transpose(0, -1), (2, 3, 4), axes=(0, -1))
        add("broadcast_to", lambda x: x.broadcast_to(2, 3, 5), (3, 1), shape=(2, 3, 5))
        add("broadcast_to", lambda x: x.broadcast_to(2, 0), (1,), shape=(2, 0))
        add("flatten", lambda x: x.flatten(1), (2, 3, 4), axis=1)
        for lengths in ((2, 3, 4), (), (0, 2)):
            add("flatten", lambda x: x.flatten(), lengths)
        add("moveaxis", lambda x: x.moveaxis(0, -1), (2, 3, 4), axes=(0, -1))
        add("squeeze", lambda x: x.squeeze(), (1, 3, 1), axes=())
        add("squeeze", lambda x: x.squeeze(0), (1, 3, 1), axes=(0,))
        add("expand_dims", lambda x: x.unsqueeze(-1), (2, 3), axis=-1)
        add("tile", lambda x: x.tile(2, 1, 3), (2, 3), counts=(2, 1, 3))
        for axes in ((0,), (-1, 0), ()):
            add("flip", lambda x: x.flip(axes or (0, 1, 2)), (2, 3, 4), axes=axes)
        add("flip", lambda x: x.flip(1), (2, 0), axes=(1,))
        for shift in (1, -2, 9, 0):
            add("roll", lambda x: x.roll(shift, 1), (3, 4), shift=shift, axis=1)
            add("roll", lambda x: x.roll(shift), (3, 4), shift=shift)
        add("roll", lambda x: x.roll(1, 0), (0, 2), shift=1, axis=0)
        for size, step in ((3, 1), (2, 3), (4, 2), (7, 5)):
            add("unfold", lambda x: x.unfold(1, size, step), (2, 7, 3), axis=1, size=size, step=step)
        add("unfold", lambda x: x.unfold(-1, 2, 1), (0, 5), axis=-1, size=2, step=1)
        for count in (3, 1, 0):
            add("repeat_interleave", lambda x: x.repeat_interleave(count, 1), (2, 3, 2), axis=1, count=count)
        counts = values([2, 0, 3], "i64")
        repeated = lambda x, n: x.repeat_interleave(n, 1)
        file.case("repeat_interleave", repeated, [make(2, 3, 2), counts], floating, axis=1)
        file.case("repeat_interleave", repeated, [make(2, 0), values([], "i64")], floating, axis=1)
        file.case("masked_select", torch.masked_select, [make(3, 4), booleans(3, 4)], floating)
        file.case("masked_select", torch.masked_select, [make(3, 1), booleans(2, 1, 4)], floating)
        for mask in (values([], "bool"), values([False, False], "bool")):
            file.case("masked_select", torch.masked_select, [make(len(mask(None))), mask], floating)
        for xy in (False, True):
            grid = lambda *axes: torch.meshgrid(*axes, indexing="xy" if xy else "ij")
            for lengths in ((3, 2), (2, 3, 4), (4,), (2, 0)):
                file.case("meshgrid", grid, [make(n) for n in lengths], floating, xy=xy)
        add("slice", lambda x: x[:, 1:6:2], (3, 7), axis=1, range=(1, 6, 2))
        add("slice", lambda x: x[2:2], (3, 7), axis=0, range=(2, 2, 1))
        add("to", lambda x: x.clone(), (2, 3))
        add("diagonal", lambda x: x.diagonal(1, 0, 2), (4, 2, 5), offset=1, axes=(0, 2))
        add("diagonal", lambda x: x.diagonal(-1), (3, 4), offset=-1, axes=(0, 1))
        for k in (0, 1, -2):
            add("tril", lambda x: x.tril(k), (2, 4, 3), diagonal=k)
            add("triu", lambda x: x.triu(k), (2, 4, 3), diagonal=k)
    for dtype in ("f64", "f32", "f16"):
        file.case("sum_to", lambda x: x.sum_to_size(3, 1), [normal(2, 3, 5)], dtype, shape=(3, 1))
        file.case("sum_to", lambda x: x.sum_to_size(()), [normal(2, 3)], dtype, shape=())
        file.case(
            "pad",
            lambda x: functional.pad(x, (0, 2, 1, 0), value=-1.5),
            [normal(2, 3)],
            dtype,
            widths=(1, 0, 0, 2),
            value=-1.5,
        )
    file.case("pad", in_numpy(lambda x: numpy.pad(x, ((0, 1), (2, 0)))), [integers(0, 9, 2, 3)], widths=(0, 1, 2, 0))


def write_joins(file):
    for dtype in ("f64", "f32", "bf16"):
        file.case("concatenate", lambda *x: torch.cat(x, 1), [normal(2, 3), normal(2, 0), normal(2, 4)], dtype, axis=1)
        file.case("stack", lambda *x: torch.stack(x, -1), [normal(2, 3), normal(2, 3)], dtype, axis=-1)
        file.case("split", lambda x: x.split([2, 0, 3], 1), [normal(2, 5)], dtype, axis=1, lengths=(2, 0, 3))
        file.case("split", lambda x: x.split(2, 0), [normal(5, 2)], dtype, axis=0, length=2)
    mixed = [typed(normal(2, 2), "f32"), typed(normal(1, 2), "f64"), typed(integers(0, 9, 1, 2), "i32")]
    file.case("concatenate", lambda *x: torch.cat(x), mixed, axis=0)
    for dtype in ("f64", "f32", "f16"):
        for shape, axis in (((3,), 1), ((2, 2), 0), ((), 1), ((0,), -1)):
            take = lambda x, p: (
                x.index_select(axis, p.reshape(-1)).unflatten(axis, p.shape) if p.dim() else x.select(axis, p)
            )
            file.case("take", take, [normal(4, 5), integers(0, 4, *shape)], dtype, axis=axis)
        file.case("take", lambda x, p: x[:, p], [normal(4, 5), integers(-5, 5, 2, 3)], dtype, axis=1)
        file.case("gather", lambda x, i: x.gather(1, i), [normal(3, 7), integers(0, 7, 3, 4)], dtype, axis=1)
        file.case("gather", lambda x, i: x.gather(0, i), [normal(3, 4), integers(0, 3, 5, 4)], dtype, axis=0)
        file.case(
            "embedding",
            lambda t, i: functional.embedding(i, t),
            [normal(9, 4), integers(0, 9, 2, 5)],
            dtype,
            widened=True,
        )
        scatter = lambda u, i: torch.zeros(3, 7, dtype=u.dtype).scatter_add(1, i, u)
        file.case(
            "scatter_add", scatter, [normal(3, 6), integers(0, 7, 3, 6)], dtype, axis=1, shape=(3, 7), widened=True
        )
    file.case("gather", lambda x, i: x.gather(1, i), [integers(0, 99, 3, 7), integers(0, 7, 3, 4)], axis=1)


def write_scatter(file):
    apart = values([[0, 2], [3, 1], [4, 0]], "i64")
    for dtype in (*WIDE, *NARROW):
        inputs = [normal(3, 5), apart, normal(3, 2)]
        file.case("scatter", lambda x, i, u: x.scatter(1, i, u), inputs, dtype, axis=1, kind="set")
        for name in ("sum", "prod", "amax", "amin"):
            into = lambda x, i, u: x.scatter_reduce(axis, i, u, name)
            for shape, axis, index, length in (
                ((3, 5), 1, (3, 7), 5),
                ((4, 3), 0, (6, 2), 4),
                ((2, 3, 4), -1, (2, 3, 9), 4),
                ((2, 3), 0, (0, 3), 2),
            ):
                inputs = [distinct(*shape), integers(0, length, *index), normal(*index)]
                file.case("scatter", into, inputs, dtype, widened=True, axis=axis, kind=name)
    axis = 0
    for name in ("sum", "prod", "amax", "amin"):
        into = lambda x, i, u: x.scatter_reduce(0, i, u, name)
        # Equals share the gradient; products of zeros.
        x, updates = values([1.0, 2.0, 0.0, 3.0]), values([1.0, 0.0, 2.0, 2.0, 4.0, 0.0, 5.0])
        index = values([0, 0, 1, 1, 2, 3, 3], "i64")
        file.case("scatter", into, [x, index, updates], "f64", axis=0, kind=name)
        x = values([1.0, INFINITY, -INFINITY, NAN, 2.0])
        updates = values([NAN, 1.0, INFINITY, 2.0, 5.0])
        index = values([0, 1, 2, 3, 4], "i64")
        file.case("scatter", into, [x, index, updates], "f32", gradient=False, axis=0, kind=name)
        for dtype in INTEGERS:
            inputs = [integers(-5, 5, 3, dtype=dtype), integers(0, 3, 6), integers(1, 5, 6, dtype=dtype)]
            file.case("scatter", into, inputs, axis=0, kind=name)

    def last(x, i, u):
        copy = x.copy()
        numpy.put_along_axis(copy, i, u, 1)
        return copy

    for make in (normal, booleans, lambda *shape: integers(-9, 9, *shape)):
        inputs = [make(3, 4), integers(0, 4, 3, 9), make(3, 9)]
        file.case("scatter", in_numpy(last), inputs, "f32", gradient=False, axis=1, kind="set")


def write_counted(file):
    unlike = lambda x: torch.unique(x, return_inverse=True, return_counts=True)
    for make in (integers(-3, 4, 4, 5), integers(0, 3, 7, dtype="u8"), booleans(2, 3), integers(0, 9, 0), integers(0, 9)):
        file.case("argwhere", torch.argwhere, [make])
        file.case("unique", unlike, [make])
    for dtype in (*WIDE, *NARROW):
        file.case("argwhere", torch.argwhere, [integers(-1, 2, 2, 3, 4, dtype="f64")], dtype, gradient=False)
        file.case("unique", unlike, [integers(-3, 4, 4, 5, dtype="f64")], dtype, gradient=False)
    odd = values([[NAN, 0.0, INFINITY], [-INFINITY, NAN, INFINITY]])
    file.case("argwhere", torch.argwhere, [odd], "f32", gradient=False)
    whole = lambda x: numpy.unique(x, return_inverse=True, return_counts=True)
    file.case("unique", in_numpy(whole), [odd], "f32", gradient=False)
    for least in (0, 3, 12):
        for dtype in ("i64", "u8"):
            file.case("bincount", lambda x: torch.bincount(x, None, least), [integers(0, 8, 20, dtype=dtype)], least=least)
        for dtype in WIDE:
            # torch.bincount has no gradient.
            weighted = lambda x, w: torch.zeros(max(least, int(x.max()) + 1), dtype=w.dtype).scatter_add(0, x, w)
            file.case("bincount", weighted, [integers(0, 8, 20), normal(20)], dtype, least=least)
    file.case("bincount", lambda x: torch.bincount(x), [values([], "i64")], least=0)
    odd = [values([0, 1, 2, 2], "i64"), values([NAN, INFINITY, 1.0, -INFINITY])]
    file.case("bincount", lambda x, w: torch.bincount(x, w), odd, "f64", gradient=False, least=0)


def python_index(entries, positions):
    def entry(text):
        if text in ("newaxis", "...", "t"):
            return {"newaxis": None, "...": Ellipsis, "t": positions}[text]
        if ":" in text:
            return slice(*(int(part) if part else None for part in text.split(":")))
        return int(text)

    return tuple(entry(text) for text in entries.split(";"))


def write_indexing(file):
    for entries in (
        "1",
        "-1",
        "1;2",
        ":;1:3",
        "...;-1",
        "newaxis;1;...",
        "::2;:;1:-1",
        "-3:9",
        "3:1",
        "0;...;newaxis",
        "1;2;3",
    ):
        for dtype in ("f64", "f32", *(NARROW if entries == "1;2;3" else ())):
            file.case("index", lambda x: x[python_index(entries, None)], [normal(3, 4, 5)], dtype, entries=entries)
            if "newaxis" not in entries:
                file.case(
                    "slice_assign",
                    lambda x, v: assigned(x, python_index(entries, None), v),
                    [normal(3, 4, 5), normal()],
                    dtype,
                    entries=entries,
                )
        file.case("index", lambda x: x[python_index(entries, None)], [integers(-9, 9, 3, 4, 5)], entries=entries)
    for entries in ("t", ":;t", "1;t", "...;t", "1:;t;newaxis"):
        for shape in ((6,), (2, 2), (0,)):
            file.case(
                "index",
                lambda x, p: x[python_index(entries, p)],
                [normal(3, 4, 5), integers(-3, 3, *shape)],
                "f32",
                entries=entries,
            )


def assigned(x, index, value):
    copy = x.clone()
    copy[index] = value
    return copy


def write(file):
    file.special = ("sum_to", "scatter_add", "cast")
    write_types(file)
    write_promotion(file)
    write_shapes(file)
    write_joins(file)
    write_scatter(file)
    write_counted(file)
    write_indexing(file)
