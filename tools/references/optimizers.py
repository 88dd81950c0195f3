# SPDX-License-Identifier: Apache-2.0
"""A hundred steps of each optimizer, with the same gradients for all.

`<case>.p0 p1` are the parameters after each of the steps `<dtype>.snapshots`, from `<dtype>.start0 start1` and with the
gradients `<dtype>.gradient0 gradient1`, a row for each step; of sparse_adam those rows that `seen_rows` says. The metadata says `<case>: <optimizer> <option>=<value>
...`. Lion is lion-pytorch's and LAMB timm's; all others are PyTorch's.
"""

import functools
import importlib
import importlib.metadata
import importlib.util
import pathlib
import sys
import types
import unittest.mock

import lion_pytorch
import numpy
import torch

from reference_file import DTYPES, attribute, versions, write_safetensors

STEPS = 100
SNAPSHOTS = [1, 2, 3, 5, 10, 20, 50, 100]
SHAPES = [(5, 3), (4,)]


@functools.cache
def lamb_of_timm():
    """timm's package imports more than its optimizers need."""
    folder = pathlib.Path(importlib.util.find_spec("timm").origin).parent
    for name, path in (("timm", folder), ("timm.optim", folder / "optim")):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(path)]
    return importlib.import_module("timm.optim.lamb").Lamb


def renamed(options, **names):
    """The library's names of options, PyTorch's where they differ."""
    given = {names.get(name, name): value for name, value in options.items()}
    if "beta1" in given:
        given["betas"] = (given.pop("beta1"), given.pop("beta2"))
    return given


def optimizer(name, parameters, options):
    plain = renamed(
        options, rate="lr", epsilon="eps", learning_rate_decay="lr_decay", scale="adjust_lr_fn", decoupled="decoupled_weight_decay"
    )
    if name == "lamb":
        return lamb_of_timm()(parameters, max_grad_norm=None, always_adapt=True, foreach=False, **plain)
    kinds = {
        "sgd": torch.optim.SGD,
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "rmsprop": torch.optim.RMSprop,
        "adagrad": torch.optim.Adagrad,
        "adadelta": torch.optim.Adadelta,
        "radam": torch.optim.RAdam,
        "lion": lion_pytorch.Lion,
        "muon": torch.optim.Muon,
        "sparse_adam": torch.optim.SparseAdam,
    }
    return kinds[name](parameters, **plain)


def seen_rows(step, rows):
    """Those that a sparse gradient has."""
    return [row for row in range(rows) if (step + row) % 3 != 0]


def in_rows(gradient, step):
    rows = torch.tensor(seen_rows(step, len(gradient)))
    return torch.sparse_coo_tensor(rows.unsqueeze(0), gradient[rows], gradient.shape)


class Trajectories:
    def __init__(self):
        self.tensors, self.cases = {}, {}
        random = numpy.random.RandomState(1)
        start = [random.standard_normal(shape) for shape in SHAPES]
        # Their size changes over the steps, and some are rare.
        scale = numpy.exp(random.standard_normal(STEPS))
        gradients = [random.standard_normal((STEPS, *shape)) * scale.reshape(-1, *[1] * len(shape)) for shape in SHAPES]
        gradients[1][:, 0] *= random.uniform(size=STEPS) < 0.1
        for dtype in ("f32", "f64"):
            for place in range(len(SHAPES)):
                self.tensors[f"{dtype}.start{place}"] = torch.from_numpy(start[place]).to(DTYPES[dtype])
                self.tensors[f"{dtype}.gradient{place}"] = torch.from_numpy(gradients[place]).to(DTYPES[dtype])
            self.tensors[f"{dtype}.snapshots"] = torch.tensor(SNAPSHOTS)

    def add(self, name, **options):
        for dtype in ("f32", "f64"):
            case = f"{name}.{len(self.cases)}"
            self.cases[case] = " ".join(
                [name, f"dtype={dtype}"] + [f"{key}={attribute(value)}" for key, value in options.items()]
            )
            # PyTorch's Muon multiplies in bf16; here it is to multiply in the parameter's type.
            with unittest.mock.patch.object(torch, "bfloat16", DTYPES[dtype]):
                self._run(case, name, dtype, options)

    def _run(self, case, name, dtype, options):
        count = 1 if name in ("muon", "sparse_adam") else len(SHAPES)  # matrices only
        parameters = [torch.nn.Parameter(self.tensors[f"{dtype}.start{place}"].clone()) for place in range(count)]
        clip = options.get("clip", None)
        steps = optimizer(name, parameters, {key: value for key, value in options.items() if key != "clip"})
        kept = [[] for _ in parameters]
        for step in range(STEPS):
            for place, parameter in enumerate(parameters):
                gradient = self.tensors[f"{dtype}.gradient{place}"][step].clone()
                parameter.grad = in_rows(gradient, step) if name == "sparse_adam" else gradient
            if clip:
                torch.nn.utils.clip_grad_norm_(parameters, clip)
            steps.step()
            if step + 1 in SNAPSHOTS:
                for place, parameter in enumerate(parameters):
                    kept[place].append(parameter.detach().clone())
        for place, each in enumerate(kept):
            self.tensors[f"{case}.p{place}"] = torch.stack(each)


def write(path):
    file = Trajectories()
    file.add("sgd", rate=0.1)
    file.add("sgd", rate=0.05, momentum=0.9)
    file.add("sgd", rate=0.05, momentum=0.9, nesterov=True)
    file.add("sgd", rate=0.05, momentum=0.8, dampening=0.3, weight_decay=0.1)
    file.add("sgd", rate=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)
    file.add("sgd", rate=0.1, clip=1.0)
    file.add("adam", rate=0.01)
    file.add("adam", rate=0.01, beta1=0.8, beta2=0.95, epsilon=1e-4, weight_decay=0.1)
    file.add("adam", rate=0.01, amsgrad=True)
    file.add("adamw", rate=0.01)
    file.add("adamw", rate=0.03, beta1=0.8, beta2=0.95, epsilon=1e-6, weight_decay=0.3)
    file.add("rmsprop", rate=0.01)
    file.add("rmsprop", rate=0.01, alpha=0.9, momentum=0.9, weight_decay=0.1)
    file.add("rmsprop", rate=0.01, epsilon=1e-3, centered=True)
    file.add("rmsprop", rate=0.01, momentum=0.5, centered=True)
    file.add("adagrad", rate=0.1)
    file.add(
        "adagrad", rate=0.1, learning_rate_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.2, epsilon=1e-6
    )
    file.add("adadelta", rate=1.0)
    file.add("adadelta", rate=0.3, rho=0.5, epsilon=1e-3, weight_decay=0.1)
    file.add("radam", rate=0.01)
    file.add("radam", rate=0.01, beta1=0.8, beta2=0.9, epsilon=1e-4, weight_decay=0.1)
    file.add("radam", rate=0.03, beta1=0.9, beta2=0.98, weight_decay=0.2, decoupled=True)
    file.add("lion", rate=0.003)
    file.add("lion", rate=0.01, beta1=0.95, beta2=0.98, weight_decay=0.3)
    file.add("lamb", rate=0.01)
    file.add("lamb", rate=0.03, beta1=0.8, beta2=0.95, epsilon=1e-4, weight_decay=0.2)
    file.add("muon", rate=0.02, weight_decay=0.1)
    file.add("muon", rate=0.02, momentum=0.9, nesterov=False, weight_decay=0.0, scale="original")
    file.add("muon", rate=0.02, weight_decay=0.01, scale="match_rms_adamw")
    file.add("sparse_adam", rate=0.01)
    file.add("sparse_adam", rate=0.05, beta1=0.8, beta2=0.95, epsilon=0.1)
    packages = {name: importlib.metadata.version(name) for name in ("lion-pytorch", "timm")}
    write_safetensors(path, file.tensors, versions() | packages | file.cases)
