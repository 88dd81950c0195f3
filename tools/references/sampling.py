# SPDX-License-Identifier: Apache-2.0
"""Pooling to a size, images of another size, images read at places, and padding with what a tensor holds."""

import numpy
from torch.nn import functional

from reference_file import distinct, in_numpy, integers, normal, uniform

DTYPES = ("f64", "f32", "bf16", "f16")


def write_adaptive_pooling(file):
    for lengths, size in (
        ((9,), (4,)),
        ((8,), (4,)),
        ((3,), (5,)),
        ((7, 5), (3, 2)),
        ((6, 4), (3, 1)),
        ((5, 6), (5, 4)),
        ((3, 4, 5), (2, 3, 3)),
        ((4, 3, 2), (2, 3, 1)),
    ):
        rank = len(lengths)
        mean = lambda x: getattr(functional, f"adaptive_avg_pool{rank}d")(x, size)
        largest = lambda x: getattr(functional, f"adaptive_max_pool{rank}d")(x, size)
        for dtype in DTYPES:
            file.case(f"adaptive_avg_pool{rank}d", mean, [normal(1, 2, *lengths)], dtype, widened=True, size=size)
            file.case(f"adaptive_max_pool{rank}d", largest, [distinct(1, 2, *lengths)], dtype, widened=True, size=size)
        file.case(f"adaptive_avg_pool{rank}d", mean, [normal(0, 2, *lengths)], "f32", size=size)


def write_interpolation(file):
    names = {1: "linear", 2: "bilinear", 3: "trilinear"}
    for lengths, size, scale in (
        ((5,), (8,), None),
        ((6,), (4,), None),
        ((4, 3), (8, 6), None),
        ((4, 5), (7, 3), None),
        ((5, 4), (5, 1), None),
        ((4, 5), None, (2.0,)),
        ((5, 7), None, (1.7, 0.6)),
        ((2, 3, 4), (3, 5, 3), None),
        ((3, 2, 3), None, (1.5, 2.0, 0.7)),
    ):
        rank = len(lengths)
        given = {"size": size} if size else {"scale": scale}
        for mode, align in (
            ("nearest", False),
            ("nearest_exact", False),
            ("linear", False),
            ("linear", True),
            ("cubic", False),
            ("cubic", True),
            ("area", False),
        ):
            if mode == "cubic" and rank != 2:
                continue
            torch_mode = {"nearest_exact": "nearest-exact", "linear": names[rank], "cubic": "bicubic"}.get(mode, mode)
            arguments = {"mode": torch_mode}
            if mode in ("linear", "cubic"):
                arguments["align_corners"] = align
            if size:
                arguments["size"] = size
            else:
                arguments["scale_factor"] = scale if len(scale) > 1 else scale[0]
            reference = lambda x: functional.interpolate(x, **arguments)
            for dtype in DTYPES if rank == 2 and not align else ("f64", "f32"):
                x = [normal(1, 2, *lengths)]
                file.case("interpolate", reference, x, dtype, widened=True, mode=mode, align_corners=align, **given)
    empty = lambda x: functional.interpolate(x, (3, 4), mode="nearest")
    file.case("interpolate", empty, [normal(0, 2, 2, 2)], "f32", mode="nearest", size=(3, 4))


def write_grid_sample(file):
    for lengths, grid in (((4, 5), (3, 2)), ((1, 3), (2, 3)), ((2, 3, 2), (2, 1, 3))):
        for mode in ("linear", "nearest", "cubic"):
            if mode == "cubic" and len(lengths) == 3:
                continue
            for padding in ("zeros", "border", "reflection"):
                for align in (False, True):
                    torch_mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
                    reference = lambda x, g: functional.grid_sample(x, g, torch_mode, padding, align)
                    inputs = [normal(2, 2, *lengths), uniform(-2.1, 2.1, 2, *grid, len(lengths))]
                    options = {"mode": mode, "padding": padding, "align_corners": align}
                    for dtype in DTYPES if (padding, align) == ("zeros", False) else ("f64", "f32"):
                        # PyTorch's own gradient has none.
                        file.case("grid_sample", reference, inputs, dtype, second=False, widened=True, **options)


def write_pixels(file):
    for dtype in ("f64", "f32", "bf16"):
        file.case("pixel_shuffle", lambda x: functional.pixel_shuffle(x, 2), [normal(2, 8, 2, 3)], dtype, factor=2)
        file.case("pixel_unshuffle", lambda x: functional.pixel_unshuffle(x, 2), [normal(2, 2, 4, 6)], dtype, factor=2)
    shuffle = lambda x: functional.pixel_shuffle(x, 3)
    file.case("pixel_shuffle", shuffle, [integers(0, 99, 9, 2, 1)], gradient=False, factor=3)


def write_padding(file):
    for mode, (first, last) in (("reflect", ((1, 2), (3, 0))), ("replicate", ((4, 1), (0, 5))), ("circular", ((2, 3), (1, 4)))):
        reference = lambda x: functional.pad(x, (*last, *first), mode=mode)
        for dtype in ("f64", "f32", "bf16"):
            inputs = [normal(1, 2, 3, 4)]
            file.case("pad_mode", reference, inputs, dtype, mode=mode, widened=True, widths=(0, 0, 0, 0, *first, *last))
        name = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
        wide = in_numpy(lambda x: numpy.pad(x, ((7, 9), (1, 5)), mode=name))
        file.case("pad_mode", wide, [integers(0, 9, 3, 1)], mode=mode, widths=(7, 9, 1, 5))


def write(file):
    file.special = (
        *(f"adaptive_{kind}_pool{rank}d" for kind in ("avg", "max") for rank in (1, 2, 3)),
        "interpolate",
        "grid_sample",
    )
    write_adaptive_pooling(file)
    write_interpolation(file)
    write_grid_sample(file)
    write_pixels(file)
    write_padding(file)
