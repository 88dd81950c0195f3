# SPDX-License-Identifier: Apache-2.0
"""Learning rates of PyTorch's schedulers, one for each step from the first on.

`<case>.rates` are f64; the metadata says `<case>: <schedule> <argument>=<value> ...`, with the library's names.
"""

import math

import torch
from torch.optim import lr_scheduler as schedulers

from reference_file import attribute, versions, write_safetensors

STEPS = 60
METRICS = [math.sin(0.37 * step) * math.exp(-0.05 * step) + 0.5 for step in range(STEPS)]


class Rates:
    def __init__(self):
        self.tensors, self.cases = {}, {}

    def add(self, name, base, make, **arguments):
        case = f"{name}.{len(self.cases)}"
        self.cases[case] = " ".join([name] + [f"{key}={attribute(value)}" for key, value in arguments.items()])
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=base)
        scheduler = make(optimizer)
        rates = []
        for step in range(STEPS):
            plateau = isinstance(scheduler, schedulers.ReduceLROnPlateau)
            if not plateau:
                rates.append(float(optimizer.param_groups[0]["lr"]))
            optimizer.step()
            if plateau:
                scheduler.step(METRICS[step])
                rates.append(float(optimizer.param_groups[0]["lr"]))
            elif step + 1 < STEPS:
                scheduler.step()
        self.tensors[f"{case}.rates"] = torch.tensor(rates, dtype=torch.float64)


def write(path):
    file = Rates()
    file.add("constant", 0.3, lambda o: schedulers.LambdaLR(o, lambda step: 1.0), rate=0.3)
    for every, gamma in ((7, 0.5), (1, 0.9), (100, 0.1)):
        file.add("step", 0.3, lambda o: schedulers.StepLR(o, every, gamma), rate=0.3, every=every, gamma=gamma)
    for milestones in ((3, 20, 21), (5, 5, 40), (0, 10)):
        file.add(
            "multi_step",
            0.3,
            lambda o: schedulers.MultiStepLR(o, milestones, 0.3),
            rate=0.3,
            milestones=milestones,
            gamma=0.3,
        )
    for start, end, steps in ((0.1, 1.0, 20), (1.0, 0.01, 33), (0.5, 1.0, 1)):
        file.add(
            "linear",
            0.4,
            lambda o: schedulers.LinearLR(o, start, end, steps),
            **{"from": 0.4 * start, "to": 0.4 * end, "steps": steps},
        )
    file.add("exponential", 0.3, lambda o: schedulers.ExponentialLR(o, 0.95), rate=0.3, gamma=0.95)
    for steps, power in ((40, 1.0), (50, 2.0), (30, 0.5)):
        file.add(
            "polynomial", 0.3, lambda o: schedulers.PolynomialLR(o, steps, power), rate=0.3, steps=steps, power=power
        )
    for steps, lowest in ((20, 0.0), (59, 0.01), (7, 0.1)):
        file.add(
            "cosine",
            0.3,
            lambda o: schedulers.CosineAnnealingLR(o, steps, lowest),
            rate=0.3,
            steps=steps,
            lowest=lowest,
        )
    for steps, factor, lowest in ((10, 1, 0.0), (5, 2, 0.01), (1, 3, 0.0)):
        file.add(
            "cosine_restarts",
            0.3,
            lambda o: schedulers.CosineAnnealingWarmRestarts(o, steps, factor, lowest),
            rate=0.3,
            steps=steps,
            factor=factor,
            lowest=lowest,
        )
    for rising, cosine, three in ((0.3, True, False), (0.3, False, False), (0.4, True, True), (0.25, False, True)):
        cycle = lambda o: schedulers.OneCycleLR(
            o,
            0.5,
            total_steps=STEPS,
            pct_start=rising,
            anneal_strategy="cos" if cosine else "linear",
            three_phase=three,
            div_factor=20,
            final_div_factor=1000,
            cycle_momentum=False,
        )
        file.add(
            "one_cycle",
            0.5,
            cycle,
            highest=0.5,
            steps=STEPS,
            rising=rising,
            cosine=cosine,
            three_phase=three,
            div_factor=20,
            final_div_factor=1000,
        )
    for rising, falling, mode, factors in (
        (7, None, "triangular", {}),
        (5, 12, "triangular2", {"cycle_factor": 0.5}),
        (9, 4, "exp_range", {"step_factor": 0.97}),
    ):
        cyclic = lambda o: schedulers.CyclicLR(
            o, 0.1, 0.5, rising, falling, mode, factors.get("step_factor", 1.0), cycle_momentum=False
        )
        more = {} if falling is None else {"falling": falling}
        file.add("cyclic", 0.1, cyclic, lowest=0.1, highest=0.5, rising=rising, **more, **factors)
    warm = lambda o: schedulers.SequentialLR(
        o, [schedulers.LinearLR(o, 0.1, 1.0, 8), schedulers.CosineAnnealingLR(o, 50)], [8]
    )
    file.add("warm_up", 0.3, warm, rate=0.3, warm_up=8, start_factor=0.1, steps=50)
    parts = lambda o: schedulers.SequentialLR(
        o, [schedulers.ConstantLR(o, 0.5, 1000), schedulers.ExponentialLR(o, 0.9)], [11]
    )
    file.add("sequential", 0.3, parts, rate=0.3, factor=0.5, gamma=0.9, milestone=11)
    product = lambda o: schedulers.ChainedScheduler(
        [schedulers.LinearLR(o, 0.5, 1.0, 9), schedulers.StepLR(o, 13, 0.7)]
    )
    file.add("chained", 0.3, product, rate=0.3, start_factor=0.5, steps=9, every=13, gamma=0.7)
    noam = lambda o: schedulers.LambdaLR(o, lambda step: 64**-0.5 * min((step + 1) ** -0.5, (step + 1) * 20**-1.5))
    file.add("noam", 2.0, noam, width=64, warm_up=20, scale=2.0)
    for patience, cooldown, mode, threshold_mode in (
        (2, 0, "min", "rel"),
        (1, 3, "min", "abs"),
        (0, 0, "max", "rel"),
        (3, 1, "max", "abs"),
    ):
        plateau = lambda o: schedulers.ReduceLROnPlateau(o, mode, 0.5, patience, 1e-2, threshold_mode, cooldown, 1e-3)
        file.add(
            "plateau",
            0.3,
            plateau,
            rate=0.3,
            factor=0.5,
            patience=patience,
            threshold=1e-2,
            cooldown=cooldown,
            lowest=1e-3,
            maximise=mode == "max",
            absolute=threshold_mode == "abs",
        )
    file.tensors["metrics"] = torch.tensor(METRICS, dtype=torch.float64)
    write_safetensors(path, file.tensors, versions() | file.cases)
