#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX's own test cases of single operators, from the package onnx: node_cases.py FOLDER

A folder for each case: model.onnx, and input_0.pb, ..., output_0.pb, ..., a tensor each. Cases of sequences, optionals and
strings, which are no tensors of numbers, are left out, and their number is printed behind that of the others.
"""

import pathlib
import sys
import warnings

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def tensor(value):
    if isinstance(value, onnx.TensorProto):
        return value
    if isinstance(value, (numpy.ndarray, numpy.generic)) and value.dtype.kind not in "OSU":
        return numpy_helper.from_array(numpy.asarray(value))
    raise TypeError(type(value))


def main(folder):
    warnings.simplefilter("ignore")  # of cases that overflow on purpose
    numpy.seterr(all="ignore")
    written, left_out = 0, 0
    for case in collect_testcases(None):
        try:
            values = {f"{kind}_{i}.pb": tensor(value).SerializeToString() for kind, given in zip(("input", "output"), case.data_sets[0])
                      for i, value in enumerate(given)}
        except TypeError:
            left_out += 1
            continue
        place = pathlib.Path(folder) / case.name
        place.mkdir(parents=True)
        (place / "model.onnx").write_bytes(case.model.SerializeToString())
        for name, content in values.items():
            (place / name).write_bytes(content)
        written += 1
    print(written, left_out)


if __name__ == "__main__":
    main(sys.argv[1])
