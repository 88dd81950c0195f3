# SPDX-License-Identifier: Apache-2.0
"""Cases with the results that NumPy and PyTorch give, written as one safetensors file.

A case is an entry of the file's metadata, `<case>: <operation> <attribute>=<value> ...`, and these arrays:

    <case>.x0 x1 ...  inputs                     <case>.y0 y1 ...  results
    <case>.dy0 ...    upstream gradients         <case>.g0 ...     gradients of the floating inputs, by input
    <case>.v0 ...     directions, by gradient    <case>.h0 ...     gradients of sum(g * v) of the floating inputs

Values depend on the case's name alone, so that cases can be added without changing others.
"""

import json
import struct
import zlib

import numpy
import torch

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i8": torch.int8,
    "u8": torch.uint8,
}
CODES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.bool: "BOOL",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int8: "I8",
    torch.uint8: "U8",
}
NARROW = (torch.bfloat16, torch.float16)
SPECIAL = (float("nan"), float("inf"), float("-inf"))


def versions():
    return {"numpy": numpy.__version__, "torch": torch.__version__.split("+")[0]}


def write_safetensors(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, bytearray()
    for name, tensor in tensors.items():
        begin = len(data)
        flat = tensor.detach().contiguous().reshape(-1)
        data += flat.view(torch.uint8).numpy(force=True).tobytes() if flat.numel() else b""
        header[name] = {"dtype": CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(data))


# --- inputs: functions of a random generator that give NumPy arrays


def normal(*shape):
    return lambda random: random.standard_normal(shape)


def uniform(low, high, *shape):
    return lambda random: random.uniform(low, high, shape)


def integers(low, high, *shape, dtype="i64"):
    return lambda random: random.randint(low, high, shape).astype(numpy_dtype(dtype))


def booleans(*shape):
    return lambda random: random.randint(0, 2, shape).astype(bool)


def values(listed, dtype="f64"):
    return lambda random: numpy.array(listed, numpy_dtype(dtype))


def distinct(*shape):
    """No two elements are equal, nor near: for extrema and sorting."""
    count = int(numpy.prod(shape))
    return lambda random: (random.permutation(count).reshape(shape) - count / 2) * 0.25


def typed(make, dtype):
    """Of a type of its own, whatever the case's."""
    return lambda random: torch.from_numpy(numpy.array(make(random))).to(DTYPES[dtype])


def with_one(special, make):
    """One element, in the middle, is this value."""

    def made(random):
        array = numpy.array(make(random))
        array.flat[array.size // 2] = special
        return array

    if hasattr(make, "constant"):
        made.constant = True
    return made


def constant(make):
    """A floating input that has no gradient."""

    def made(random):
        return make(random)

    made.constant = True
    return made


def numpy_dtype(name):
    return {
        "bool": "bool",
        "i8": "int8",
        "u8": "uint8",
        "i32": "int32",
        "i64": "int64",
        "f32": "float32",
        "f64": "float64",
    }[name]


def in_numpy(function):
    """A reference computed by NumPy: takes and gives tensors, without gradients."""

    def reference(*tensors):
        result = function(*(tensor.detach().numpy() for tensor in tensors))
        results = result if isinstance(result, (tuple, list)) else [result]
        return [torch.from_numpy(numpy.ascontiguousarray(each).reshape(numpy.shape(each))) for each in results]

    return reference


def attribute(value):
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (tuple, list)):
        return ",".join(attribute(each) for each in value)
    return repr(value) if isinstance(value, float) else str(value)


class ReferenceFile:
    def __init__(self):
        self.tensors = {}
        self.cases = {}
        self.counts = {}
        self.special = ()
        self.special_results = ()

    def case(self, operation, reference, inputs, dtype="f64", gradient=True, second=True, widened=False, **attributes):
        """Floating inputs become `dtype`. `widened`: bf16 and f16 are computed in f32 and rounded at the end, which is
        what the library does where PyTorch rounds between the steps of one operation.

        Attributes that the comparison reads: `tolerance` (relative, at least the dtype's), `each` (relative to each
        element, in place of the largest; not for second gradients), `signed_zeros` (of results),
        `constants` (inputs without gradient).

        The first case of an operation in `special` comes with NaN and with each infinity in its first input, too; of
        one in `special_results` without gradients.
        """
        number = self.counts.get(operation, 0)
        self.counts[operation] = number + 1
        self._add(f"{operation}.{number}", operation, reference, inputs, dtype, gradient, second, widened, attributes)
        if number > 0 or operation not in (*self.special, *self.special_results):
            return
        gradient = gradient and operation in self.special
        for value in SPECIAL:
            poisoned = [with_one(value, inputs[0]), *inputs[1:]]
            self._add(f"{operation}.{value}", operation, reference, poisoned, "f32", gradient, False, False, attributes)

    def _add(self, name, operation, reference, inputs, dtype, gradient, second, widened, attributes):
        random = numpy.random.RandomState(zlib.crc32(name.encode()))
        stored = [self._input(make, random, DTYPES[dtype]) for make in inputs]
        constants = [place for place, make in enumerate(inputs) if hasattr(make, "constant")]
        if constants:
            attributes["constants"] = constants
        self.cases[name] = " ".join([operation] + [f"{key}={attribute(value)}" for key, value in attributes.items()])
        self._keep(name, "x", stored)

        narrow = DTYPES[dtype] if DTYPES[dtype] in NARROW else None
        leaves = [
            self._leaf(tensor, gradient and place not in constants, widened) for place, tensor in enumerate(stored)
        ]
        results = reference(*leaves)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        self._keep(name, "y", [self._narrowed(result, narrow) for result in results])
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        graphs = [result for result in results if result.requires_grad]
        if not gradient or not wanted or not graphs:
            return
        upstream = [self._random_like(result, random, narrow) for result in results]
        self._keep(name, "dy", [tensor for tensor, result in zip(upstream, results) if result.is_floating_point()])
        gradients = torch.autograd.grad(
            graphs,
            wanted,
            [u.to(r.dtype) for u, r in zip(upstream, results) if r.requires_grad],
            create_graph=second and not narrow,
            materialize_grads=True,
        )
        self._keep(name, "g", [self._narrowed(each, narrow) for each in gradients])
        if not second or narrow:
            return
        directions = [self._random_like(each, random, None) for each in gradients]
        product = sum((g * v).sum() for g, v in zip(gradients, directions))
        if not product.requires_grad:
            return
        self._keep(name, "v", directions)
        self._keep(name, "h", torch.autograd.grad(product, wanted, materialize_grads=True))

    def write(self, path):
        for name in self.cases:
            assert " " not in name, name
        write_safetensors(path, self.tensors, versions() | self.cases)

    def _keep(self, case, kind, tensors):
        for place, tensor in enumerate(tensors):
            self.tensors[f"{case}.{kind}{place}"] = tensor.detach()

    @staticmethod
    def _input(make, random, dtype):
        made = make(random)
        if isinstance(made, torch.Tensor):
            return made
        tensor = torch.from_numpy(numpy.array(made))
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    @staticmethod
    def _leaf(tensor, gradient, widened):
        leaf = tensor.float() if widened and tensor.dtype in NARROW else tensor.clone()
        return leaf.requires_grad_() if gradient and leaf.is_floating_point() else leaf

    @staticmethod
    def _narrowed(tensor, narrow):
        return tensor.to(narrow) if narrow and tensor.dtype == torch.float32 else tensor

    @staticmethod
    def _random_like(tensor, random, narrow):
        made = torch.from_numpy(numpy.array(random.standard_normal(tuple(tensor.shape))))
        return made.to(narrow if narrow and tensor.dtype == torch.float32 else tensor.dtype)
