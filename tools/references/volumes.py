# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution, and convolution and pooling of volumes."""

from torch.nn import functional

from reference_file import distinct, normal

DTYPES = ("f64", "f32", "bf16", "f16")


def write_transposed(file, operation, torch_operation, images, kernel, cases):
    """`cases`: groups, channels in and out, stride, padding, output_padding, dilation."""
    for groups, channels, out, stride, padding, output_padding, dilation in cases:

        def reference(x, w, b=None):
            return torch_operation(x, w, b, stride, padding, output_padding, groups, dilation)

        geometry = {
            "stride": stride,
            "padding": padding,
            "output_padding": output_padding,
            "dilation": dilation,
            "groups": groups,
        }
        inputs = [normal(2, channels, *images), normal(channels, out // groups, *kernel), normal(out)]
        for dtype in DTYPES:
            file.case(operation, reference, inputs, dtype, widened=True, **geometry)
        file.case(operation, reference, inputs[:2], "f32", **geometry)


def write_all_transposed(file):
    write_transposed(
        file,
        "conv_transpose1d",
        functional.conv_transpose1d,
        (5,),
        (3,),
        ((1, 2, 3, 1, 0, 0, 1), (2, 4, 6, 2, 1, 1, 1), (3, 3, 3, 3, 2, 2, 2), (1, 2, 2, 1, 1, 2, 3)),
    )
    write_transposed(
        file,
        "conv_transpose2d",
        functional.conv_transpose2d,
        (3, 4),
        (3, 2),
        (
            (1, 2, 3, (1, 1), (0, 0), (0, 0), (1, 1)),
            (2, 4, 6, (2, 1), (1, 0), (1, 0), (1, 1)),
            (3, 3, 3, (2, 3), (1, 2), (1, 2), (2, 1)),
            (1, 2, 2, (1, 2), (1, 1), (2, 3), (3, 4)),
        ),
    )
    write_transposed(
        file,
        "conv_transpose3d",
        functional.conv_transpose3d,
        (2, 2, 3),
        (3, 2, 2),
        (
            (1, 2, 2, (1, 1, 1), (0, 0, 0), (0, 0, 0), (1, 1, 1)),
            (2, 2, 4, (2, 1, 2), (1, 0, 1), (1, 0, 1), (1, 1, 1)),
            (1, 1, 2, (2, 1, 1), (2, 1, 0), (2, 1, 0), (3, 2, 1)),
        ),
    )


def write_conv3d(file):
    for groups, channels, out, stride, padding, dilation in (
        (1, 2, 2, (1, 1, 1), (0, 0, 0), (1, 1, 1)),
        (2, 2, 4, (2, 1, 2), (1, 0, 1), (1, 1, 1)),
        (1, 1, 2, (1, 2, 1), (3, 1, 0), (2, 1, 2)),
        (2, 4, 2, (3, 1, 1), (0, 1, 1), (1, 2, 1)),
    ):
        reference = lambda x, w, b=None: functional.conv3d(x, w, b, stride, padding, dilation, groups)
        geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        inputs = [normal(1, channels, 4, 4, 3), normal(out, channels // groups, 3, 2, 2), normal(out)]
        for dtype in DTYPES:
            file.case("conv3d", reference, inputs, dtype, widened=True, **geometry)
        empty = [normal(0, channels, 4, 4, 3), *inputs[1:]]
        file.case("conv3d", reference, empty, "f32", **geometry)


def write_pooling(file):
    for kernel, stride, padding in (
        ((2, 2, 2), (2, 2, 2), (0, 0, 0)),
        ((3, 2, 2), (1, 2, 1), (1, 1, 0)),
        ((1, 3, 2), (1, 1, 2), (0, 1, 1)),
    ):
        geometry = {"kernel": kernel, "stride": stride, "padding": padding}
        largest = lambda x: functional.max_pool3d(x, kernel, stride, padding)
        for dtype in DTYPES:
            file.case("max_pool3d", largest, [distinct(1, 2, 4, 5, 4)], dtype, widened=True, **geometry)
        for count_include_pad in (False, True):
            mean = lambda x: functional.avg_pool3d(x, kernel, stride, padding, False, count_include_pad)
            counted = {"count_include_pad": count_include_pad, **geometry}
            for dtype in DTYPES:
                file.case("avg_pool3d", mean, [normal(1, 2, 4, 5, 4)], dtype, widened=True, **counted)
            file.case("avg_pool3d", mean, [normal(0, 2, 4, 5, 4)], "f32", **counted)


def write(file):
    file.special = (
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "conv3d",
        "max_pool3d",
        "avg_pool3d",
    )
    write_all_transposed(file)
    write_conv3d(file)
    write_pooling(file)
