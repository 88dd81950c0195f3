# SPDX-License-Identifier: Apache-2.0
"""Gradients clipped by their joint norm and by value.

`<case>.c0 c1 ...` are what becomes of the gradients `<dtype>.gradient0 gradient1 ...`, `<case>.norm` is their norm
before. The metadata says `<case>: <kind> dtype=<dtype> limit=<value>`.
"""

import numpy
import torch
from torch.nn import utils

from reference_file import DTYPES, versions, write_safetensors

SHAPES = [(5, 3), (4,), (), (2, 0), (7, 2, 3)]


def write(path):
    random = numpy.random.RandomState(3)
    values = [numpy.asarray(random.standard_normal(shape) * 4) for shape in SHAPES]
    tensors, cases = {}, {}
    for dtype in ("f32", "f64"):
        gradients = [torch.from_numpy(each).to(DTYPES[dtype]) for each in values]
        tensors |= {f"{dtype}.gradient{place}": each for place, each in enumerate(gradients)}
        for kind, limit in (("norm", 0.1), ("norm", 1.0), ("norm", 12.5), ("norm", 1e6), ("value", 0.5), ("value", 3.0)):
            case = f"{kind}.{len(cases)}"
            cases[case] = f"{kind} dtype={dtype} limit={limit}"
            parameters = [torch.nn.Parameter(torch.zeros_like(each)) for each in gradients]
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad = gradient.clone()
            if kind == "norm":
                tensors[f"{case}.norm"] = utils.clip_grad_norm_(parameters, limit)
            else:
                utils.clip_grad_value_(parameters, limit)
            tensors |= {f"{case}.c{place}": each.grad for place, each in enumerate(parameters)}
    write_safetensors(path, tensors, versions() | cases)
