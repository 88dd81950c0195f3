# SPDX-License-Identifier: Apache-2.0
"""Normalisation, attention and rotary positions."""

import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from reference_file import booleans, constant, normal, uniform, values

DTYPES = ("f64", "f32", "bf16", "f16")


def write_normalization(file):
    for dtype in DTYPES:
        for shape, count in (((3, 5), 1), ((2, 3, 4), 2), ((2, 3, 4), 1), ((0, 4), 1), ((4,), 1)):
            lengths = shape[len(shape) - count :]
            affine = lambda x, w=None, b=None: functional.layer_norm(x, lengths, w, b, 1e-5)
            for members in range(3):
                inputs = [normal(*shape)] + [normal(*lengths)] * members
                file.case(
                    "layer_norm",
                    affine,
                    inputs,
                    dtype,
                    second=dtype == "f64",
                    widened=True,
                    normalized=lengths,
                    eps=1e-5,
                )
            scaled = lambda x, w=None: functional.rms_norm(x, lengths, w, 1e-6)
            for members in range(2):
                inputs = [normal(*shape)] + [normal(*lengths)] * members
                file.case(
                    "rms_norm", scaled, inputs, dtype, second=dtype == "f64", widened=True, normalized=lengths, eps=1e-6
                )
        for shape, groups in (((2, 6, 3), 3), ((2, 4), 1), ((3, 4, 2, 2), 4)):
            grouped = lambda x, w=None, b=None: functional.group_norm(x, groups, w, b, 1e-5)
            members = [normal(shape[1])] * 2
            file.case(
                "group_norm",
                grouped,
                [normal(*shape)],
                dtype,
                second=dtype == "f64",
                widened=True,
                groups=groups,
                eps=1e-5,
            )
            file.case(
                "group_norm",
                grouped,
                [normal(*shape), *members],
                dtype,
                second=dtype == "f64",
                widened=True,
                groups=groups,
                eps=1e-5,
            )
    for dtype in ("f64", "f32"):  # no eps: the type's own
        file.case(
            "rms_norm",
            lambda x: functional.rms_norm(x, (4,)),
            [values([[1e-8, 0, 0, 0], [1, 2, 3, 4]])],
            dtype,
            normalized=(4,),
        )
    grouped = lambda x: functional.group_norm(x, 2)
    file.case("group_norm", grouped, [normal(0, 4, 3)], "f32", groups=2, eps=1e-5)
    large = uniform(999.0, 1001.0, 3, 20)
    file.case(
        "layer_norm",
        lambda x: functional.layer_norm(x, (20,)),
        [large],
        "f64",
        normalized=(20,),
        eps=1e-5,
        tolerance=1e-10,
    )


def batch_norm(training, momentum, eps):
    def reference(x, mean, variance, *members):
        mean, variance = mean.clone(), variance.clone()
        result = functional.batch_norm(x, mean, variance, *members, training=training, momentum=momentum, eps=eps)
        return result, mean, variance

    return reference


def write_batch_norm(file):
    for dtype in DTYPES:
        for training in (True, False):
            for shape in ((6, 3), (4, 3, 5), (2, 3, 2, 4)):
                running = [constant(normal(3)), constant(uniform(0.5, 2, 3))]
                settings = {"training": training, "momentum": 0.3, "eps": 1e-3}
                for members in ([], [normal(3), normal(3)]):
                    inputs = [normal(*shape), *running, *members]
                    file.case(
                        "batch_norm",
                        batch_norm(**settings),
                        inputs,
                        dtype,
                        second=dtype == "f64",
                        widened=True,
                        **settings
                    )


def write_empty_batch_norm(file):
    settings = {"training": False, "momentum": 0.3, "eps": 1e-3}
    inputs = [normal(0, 3, 2), constant(normal(3)), constant(uniform(0.5, 2, 3)), normal(3), normal(3)]
    file.case("batch_norm", batch_norm(**settings), inputs, "f32", **settings)


def attention(**options):
    def reference(query, key, value, mask=None):
        with sdpa_kernel(SDPBackend.MATH):
            return functional.scaled_dot_product_attention(query, key, value, mask, **options)

    return reference


def causal_beside(mask):
    """PyTorch takes a mask or is causal."""
    return mask & torch.ones_like(mask).tril()


def write_attention(file):
    name = "scaled_dot_product_attention"
    for dtype in DTYPES:
        sizes = [normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 3)]
        square = [normal(2, 5, 4), normal(2, 5, 4), normal(2, 5, 4)]
        file.case(name, attention(), sizes, dtype, second=dtype == "f64", widened=True)
        file.case(
            name, attention(), [normal(5, 4), normal(3, 4), normal(3, 2)], dtype, second=dtype == "f64", widened=True
        )
        file.case(name, attention(scale=0.3), square, dtype, second=dtype == "f64", widened=True, scale=0.3)
        file.case(name, attention(is_causal=True), square, dtype, second=dtype == "f64", widened=True, causal=True)
        file.case(name, attention(), [*sizes, booleans(2, 2, 3, 5)], dtype, second=dtype == "f64", widened=True, mask=3)
        file.case(name, attention(), [*sizes, booleans(2, 1, 1, 5)], dtype, second=dtype == "f64", widened=True, mask=3)
        file.case(name, attention(), [*sizes, normal(3, 5)], dtype, second=dtype == "f64", widened=True, mask=3)
        grouped = [normal(2, 4, 5, 4), normal(2, 2, 6, 4), normal(2, 2, 6, 3)]
        file.case(name, attention(enable_gqa=True), grouped, dtype, second=dtype == "f64", widened=True)
        both = lambda q, k, v, m: attention()(q, k, v, causal_beside(m))
        file.case(
            name, both, [*square, booleans(5, 5)], dtype, second=dtype == "f64", widened=True, causal=True, mask=3
        )
    file.case(name, attention(), [normal(0, 5, 4), normal(0, 5, 4), normal(0, 5, 4)], "f32")
    file.case(name, attention(), [normal(2, 0, 4), normal(2, 5, 4), normal(2, 5, 4)], "f32")
    blocks = [normal(70, 4), normal(70, 4), normal(70, 3)]
    for block in (0, 16):
        file.case(name, attention(is_causal=True), blocks, "f32", second=False, causal=True, block=block)


def turned(x, base, offset, features, interleaved):
    """The package turns pairs of neighbours: halves are brought beside each other first."""
    count = features or x.shape[-1]
    frequencies = base ** -(torch.arange(0, count, 2, dtype=torch.float64) / count)  # its own are f32
    rotary = RotaryEmbedding(dim=count, custom_freqs=frequencies, cache_if_possible=False)
    order = torch.arange(count) if interleaved else torch.arange(count).reshape(2, -1).T.reshape(-1)
    order = torch.cat((order, torch.arange(count, x.shape[-1])))
    positions = torch.arange(x.shape[-2], dtype=torch.float64) + offset
    return apply_rotary_emb(rotary(positions), x[..., order])[..., order.argsort()]


def write_rotary(file):
    for dtype in DTYPES:
        for base, offset, features, interleaved in (
            (10000.0, 0, 0, True),
            (10000.0, 3, 0, False),
            (500.0, 100, 4, True),
            (500.0, 0, 4, False),
        ):
            options = {"base": base, "offset": offset, "features": features, "interleaved": interleaved}
            file.case(
                "rotary_embedding",
                lambda x: turned(x, **options),
                [normal(2, 3, 5, 8)],
                dtype,
                second=dtype == "f64",
                widened=True,
                **options
            )


def write(file):
    norms = ("layer_norm", "rms_norm", "group_norm", "batch_norm")
    file.special = (*norms, "scaled_dot_product_attention", "rotary_embedding")
    write_normalization(file)
    write_batch_norm(file)
    write_empty_batch_norm(file)
    write_attention(file)
    write_rotary(file)
