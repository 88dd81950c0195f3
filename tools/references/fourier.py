# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms; complex numbers as two real tensors."""

import torch

from reference_file import integers, normal

NORMS = ("backward", "ortho", "forward")


def parts(y):
    return (y.real.contiguous(), y.imag.contiguous()) if y.is_complex() else y


def add(file, name, inputs, dtype="f64", norm=0, second=True, **attributes):
    """`inputs`: the real part, and the imaginary one or none."""
    transform = getattr(torch.fft, name)
    options = {{"length": "n", "lengths": "s", "axis": "dim", "axes": "dim"}[key]: value for key, value in attributes.items()}

    def reference(real, imaginary=None):
        x = real if imaginary is None else torch.complex(real, imaginary)
        return parts(transform(x, norm=NORMS[norm], **options))

    file.case(name, reference, inputs, dtype, second=second, norm=norm, **attributes)


def write(file):
    for name in ("fft", "ifft", "rfft", "irfft"):
        pair = (lambda *shape: [normal(*shape)]) if name == "rfft" else (lambda *shape: [normal(*shape), normal(*shape)])
        for dtype in ("f64", "f32"):
            for norm in range(3):
                add(file, name, pair(3, 8), dtype, norm)
                add(file, name, pair(7, 2), dtype, norm, axis=0)
            for length in (1, 2, 5, 6, 11):
                add(file, name, pair(2, 6), dtype, length=length)
            add(file, name, pair(2, 5, 3), dtype, axis=-2, length=4)
            for length in (67, 360, 1009):
                add(file, name, pair(1, length), dtype, second=False)
        add(file, name, pair(0, 4))
        if name != "rfft":
            add(file, name, [normal(2, 6)], "f32")
        add(file, name, [integers(-9, 9, 2, 6)])
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        pair = (lambda *shape: [normal(*shape)]) if name == "rfftn" else (lambda *shape: [normal(*shape), normal(*shape)])
        for dtype in ("f64", "f32"):
            for norm in range(3):
                add(file, name, pair(3, 4), dtype, norm)
            add(file, name, pair(2, 3, 5), dtype, 1, axes=(-2, -1))
            add(file, name, pair(2, 3, 5), dtype, axes=(2, 0), lengths=(4, 3))
            add(file, name, pair(2, 3, 5), dtype, lengths=(4, 4))
