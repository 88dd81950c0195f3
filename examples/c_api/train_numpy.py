#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on NumPy arrays by Tutti's C API, with ctypes and DLPack alone: no copy, no compiled module.

usage: train_numpy.py [LIBRARY]     LIBRARY: its path, where the system does not find libtutti.so.0.1; a library for one level of processors then
"""

import ctypes
import sys

import numpy as np


class Options(ctypes.Structure):
    """tutti_optimizer_options"""
    _fields_ = [("size", ctypes.c_size_t), ("learning_rate", ctypes.c_double), ("weight_decay", ctypes.c_double),
                ("momentum", ctypes.c_double), ("nesterov", ctypes.c_int64), ("beta1", ctypes.c_double),
                ("beta2", ctypes.c_double), ("epsilon", ctypes.c_double)]


class Tutti:
    """The functions of the C API that fail with an exception, and give what they make."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.tutti_last_error.restype = ctypes.c_char_p
        for name in ("tensor", "model", "optimizer"):
            getattr(self.library, f"tutti_{name}_free").argtypes = [ctypes.c_void_p]

    def call(self, name, *arguments):
        if getattr(self.library, f"tutti_{name}")(*arguments) != 0:
            raise RuntimeError(self.library.tutti_last_error().decode())

    def make(self, name, *arguments):
        result = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(result))
        return result

    def free(self, kind, *handles):
        for handle in handles:
            getattr(self.library, f"tutti_{kind}_free")(handle)


NAME = b"dltensor"  # a capsule does not copy its name
USED = b"used_dltensor"
python = ctypes.pythonapi
python.PyCapsule_GetPointer.restype, python.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_New.restype, python.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def tensor_of(tutti, array):
    """A tensor over the array's memory, which lives as long as that needs it."""
    capsule = array.__dlpack__()
    managed = ctypes.c_void_p(python.PyCapsule_GetPointer(capsule, NAME))
    python.PyCapsule_SetName(capsule, USED)  # the library calls the deleter now
    return tutti.make("tensor_from_dlpack", managed)


class Exported:
    """What numpy.from_dlpack takes."""

    def __init__(self, managed):
        self.managed = managed

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **ignored):
        return python.PyCapsule_New(self.managed, NAME, None)


def array_of(tutti, tensor):
    """An array over the tensor's memory, which lives as long as that needs it."""
    return np.from_dlpack(Exported(tutti.make("tensor_to_dlpack", tensor)))


def train(tutti, points, classes, steps):
    inputs, targets = tensor_of(tutti, points), tensor_of(tutti, classes)
    model = tutti.make("model_create", b"mlp", b"2,32,2;activation=tanh", b"cpu:0", ctypes.c_uint64(1))
    options = Options()
    tutti.call("optimizer_defaults", b"adamw", ctypes.c_size_t(ctypes.sizeof(options)), ctypes.byref(options))
    options.learning_rate = 0.02
    optimizer = tutti.make("optimizer_create", b"adamw", model, ctypes.byref(options))
    for _ in range(steps):
        tutti.call("optimizer_zero_grad", optimizer)
        logits = tutti.make("model_forward", model, inputs)
        loss = tutti.make("loss", b"cross_entropy", logits, targets)
        tutti.call("backward", loss)
        tutti.call("optimizer_step", optimizer)
        tutti.free("tensor", logits, loss)
    output = tutti.make("model_infer", model, inputs)
    guesses = array_of(tutti, output).argmax(axis=1)
    tutti.free("tensor", output, inputs, targets)
    tutti.free("optimizer", optimizer)
    tutti.free("model", model)
    return float((guesses == classes).mean())


def main(arguments):
    tutti = Tutti(arguments[0] if arguments else "libtutti.so.0.1")
    random = np.random.default_rng(1)
    points = random.uniform(-1, 1, (512, 2)).astype(np.float32)
    classes = (points.prod(axis=1) > 0).astype(np.int64)
    accuracy = train(tutti, points, classes, steps=200)
    print(f"accuracy {accuracy:.3f}")
    try:
        tutti.make("model_create", b"mlp", b"2,two", b"cpu:0", ctypes.c_uint64(1))
    except RuntimeError as error:
        print(f"as expected: {error}")
    return 0 if accuracy > 0.95 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
