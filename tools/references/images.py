# SPDX-License-Identifier: Apache-2.0
"""Convolution in groups of channels, average pooling, and both along sequences."""

from torch.nn import functional

from reference_file import distinct, normal

DTYPES = ("f64", "f32", "bf16", "f16")


def write_grouped(file):
    for groups, channels, out, stride, padding, dilation in (
        (2, 4, 6, (1, 1), (1, 0), (1, 1)),
        (3, 3, 3, (2, 1), (1, 2), (1, 2)),
        (4, 4, 8, (1, 2), (0, 1), (2, 1)),
        (2, 12, 10, (2, 2), (1, 1), (1, 1)),
    ):
        reference = lambda x, w, b=None: functional.conv2d(x, w, b, stride, padding, dilation, groups)
        geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        inputs = [normal(2, channels, 6, 7), normal(out, channels // groups, 3, 2), normal(out)]
        for dtype in DTYPES:
            file.case("grouped_conv2d", reference, inputs, dtype, widened=True, **geometry)
        empty = [normal(0, channels, 6, 7), normal(out, channels // groups, 3, 2)]
        file.case("grouped_conv2d", reference, empty, "f32", **geometry)


def write_conv1d(file):
    for groups, stride, padding, dilation in ((1, 1, 0, 1), (1, 2, 1, 1), (2, 1, 2, 3), (4, 3, 1, 2)):
        reference = lambda x, w, b=None: functional.conv1d(x, w, b, stride, padding, dilation, groups)
        geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        for dtype in DTYPES:
            inputs = [normal(2, 4, 9), normal(8, 4 // groups, 3), normal(8)]
            file.case("conv1d", reference, inputs, dtype, widened=True, **geometry)
            file.case("conv1d", reference, inputs[:2], dtype, widened=True, **geometry)


def write_average_pooling(file):
    for kernel, stride, padding in (((2, 2), (2, 2), (0, 0)), ((3, 2), (1, 2), (1, 1)), ((3, 3), (2, 1), (1, 0))):
        for count_include_pad in (False, True):
            reference = lambda x: functional.avg_pool2d(x, kernel, stride, padding, False, count_include_pad)
            geometry = {"kernel": kernel, "stride": stride, "padding": padding, "count_include_pad": count_include_pad}
            for dtype in DTYPES:
                file.case("avg_pool2d", reference, [normal(2, 2, 5, 6)], dtype, widened=True, **geometry)
            file.case("avg_pool2d", reference, [normal(0, 2, 5, 6)], "f32", **geometry)


def write_sequence_pooling(file):
    for kernel, stride, padding in ((2, 2, 0), (3, 1, 1), (4, 3, 2)):
        geometry = {"kernel": kernel, "stride": stride, "padding": padding}
        largest = lambda x: functional.max_pool1d(x, kernel, stride, padding)
        for dtype in DTYPES:
            file.case("max_pool1d", largest, [distinct(2, 3, 9)], dtype, widened=True, **geometry)
        for count_include_pad in (False, True):
            mean = lambda x: functional.avg_pool1d(x, kernel, stride, padding, False, count_include_pad)
            for dtype in DTYPES:
                file.case(
                    "avg_pool1d",
                    mean,
                    [normal(2, 3, 9)],
                    dtype,
                    widened=True,
                    count_include_pad=count_include_pad,
                    **geometry,
                )


def write(file):
    file.special = ("grouped_conv2d", "conv1d", "avg_pool2d", "avg_pool1d", "max_pool1d")
    write_grouped(file)
    write_conv1d(file)
    write_average_pooling(file)
    write_sequence_pooling(file)
