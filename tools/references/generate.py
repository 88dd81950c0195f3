#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/references/data: what NumPy and PyTorch give for the cases of this folder. See docs/project/references.md.

    generate.py [--check] [NAME ...]

--check writes nothing and fails when a file would change.
"""

import argparse
import pathlib
import sys
import tempfile

import torch

import clipping
import elementwise
import fourier
import functions
import gpt
import images
import layers
import lbfgs
import linear_algebra
import losses
import networks
import optimizers
import ordering
import products
import reductions
import sampling
import schedules
import shapes
import volumes
from reference_file import ReferenceFile

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "references" / "data"


def cases(write):
    def write_to(path):
        file = ReferenceFile()
        write(file)
        file.write(path)

    return write_to


FILES = {
    "elementwise": cases(elementwise.write),
    "shapes": cases(shapes.write),
    "reductions": cases(reductions.write),
    "products": cases(products.write),
    "images": cases(images.write),
    "volumes": cases(volumes.write),
    "sampling": cases(sampling.write),
    "layers": cases(layers.write),
    "linear_algebra": cases(linear_algebra.write),
    "functions": cases(functions.write),
    "fourier": cases(fourier.write),
    "losses": cases(losses.write),
    "networks": cases(networks.write),
    "ordering": cases(ordering.write),
    "optimizers": optimizers.write,
    "lbfgs": lbfgs.write,
    "clipping": clipping.write,
    "schedules": schedules.write,
    "gpt": gpt.write_weights,
    "gpt_results": gpt.write_results,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", choices=[[], *FILES])
    options = parser.parse_args()
    torch.set_num_threads(1)
    stale = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or FILES:
            target = DATA / f"{name}.safetensors"
            made = pathlib.Path(folder) / target.name
            FILES[name](made)
            if options.check and (not target.exists() or made.read_bytes() != target.read_bytes()):
                stale.append(name)
            elif not options.check:
                target.write_bytes(made.read_bytes())
                print(f"{target.name}: {made.stat().st_size} bytes")
    if stale:
        sys.exit(f"these differ from what is made here: {', '.join(stale)}")


if __name__ == "__main__":
    main()
