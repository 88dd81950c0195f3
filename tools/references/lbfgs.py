# SPDX-License-Identifier: Apache-2.0
"""Steps of PyTorch's LBFGS on two functions of two parameters.

`<case>.p0 p1` are the parameters after each of STEPS steps and `<case>.losses` the first loss of each, from
`<dtype>.start0 start1`; `<dtype>.matrix` belongs to the function "logistic". The metadata says `<case>: lbfgs
<option>=<value> ...`.
"""

import numpy
import torch

from reference_file import DTYPES, attribute, versions, write_safetensors

STEPS = 4
SHAPES = [(3, 2), (4,)]


def rosenbrock(x, _):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def logistic(x, matrix):
    return torch.nn.functional.softplus(matrix @ x).mean() + 0.05 * (x**2).sum()


FUNCTIONS = {"rosenbrock": rosenbrock, "logistic": logistic}


def write(path):
    random = numpy.random.RandomState(3)
    tensors, cases = {}, {}
    start = [random.standard_normal(shape) for shape in SHAPES]
    matrix = random.standard_normal((30, 10))
    for dtype in ("f32", "f64"):
        for place, values in enumerate(start):
            tensors[f"{dtype}.start{place}"] = torch.from_numpy(values).to(DTYPES[dtype])
        tensors[f"{dtype}.matrix"] = torch.from_numpy(matrix).to(DTYPES[dtype])

    def add(function, dtype="f64", **options):
        case = f"lbfgs.{len(cases)}"
        given = {"function": function, "dtype": dtype} | options
        cases[case] = " ".join(["lbfgs"] + [f"{key}={attribute(value)}" for key, value in given.items()])
        names = {
            "rate": "lr",
            "iterations": "max_iter",
            "evaluations": "max_eval",
            "history": "history_size",
            "tolerance_gradient": "tolerance_grad",
        }
        plain = {names.get(key, key): value for key, value in options.items() if key != "strong_wolfe"}
        parameters = [torch.nn.Parameter(tensors[f"{dtype}.start{place}"].clone()) for place in range(len(SHAPES))]
        optimizer = torch.optim.LBFGS(
            parameters, line_search_fn="strong_wolfe" if options.get("strong_wolfe") else None, **plain
        )

        def closure():
            optimizer.zero_grad()
            flat = torch.cat([parameter.reshape(-1) for parameter in parameters])
            loss = FUNCTIONS[function](flat, tensors[f"{dtype}.matrix"])
            loss.backward()
            return loss

        losses, kept = [], [[] for _ in parameters]
        for _ in range(STEPS):
            losses.append(optimizer.step(closure).detach())
            for place, parameter in enumerate(parameters):
                kept[place].append(parameter.detach().clone())
        tensors[f"{case}.losses"] = torch.stack(losses)
        for place, each in enumerate(kept):
            tensors[f"{case}.p{place}"] = torch.stack(each)

    add("logistic", rate=1.0, iterations=5)
    add("logistic", rate=0.5, iterations=3, history=2)
    add("logistic", rate=1.0, iterations=20, tolerance_change=1e-5)
    add("logistic", rate=0.1, iterations=4, evaluations=2)
    add("logistic", dtype="f32", rate=1.0, iterations=2)
    add("logistic", rate=1.0, iterations=4, strong_wolfe=True)
    add("logistic", dtype="f32", rate=1.0, iterations=2, strong_wolfe=True)
    add("rosenbrock", rate=1.0, iterations=5, strong_wolfe=True)
    add("rosenbrock", rate=1.0, iterations=6, evaluations=30, history=3, strong_wolfe=True)
    add("rosenbrock", rate=10.0, iterations=4, evaluations=20, strong_wolfe=True)
    add("rosenbrock", rate=1e-3, iterations=4, strong_wolfe=True)
    add("rosenbrock", rate=1.0, iterations=5, evaluations=7, strong_wolfe=True)
    add("rosenbrock", rate=1.0, iterations=40, tolerance_gradient=1e-2, strong_wolfe=True)
    write_safetensors(path, tensors, versions() | cases)
