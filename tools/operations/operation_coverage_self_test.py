#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/operations/operation_coverage.py on a small tree: what it writes, and that whatever does not fit is named."""

import contextlib
import io
import json
import pathlib
import struct
import sys
import tempfile
import unittest
from unittest import mock

import operation_coverage
import operation_names

TREE = {
    "backend/backend.h": "struct Backend {\n  virtual void copy(const Array&) = 0;\n  virtual bool has() const { return 1; }\n};\n",
    "backend/cpu/cpu_backend.h": "void copy(const Array&) override;\n#include <tutti/backend/kernel_list.h>\n",
    "backend/cuda/cuda_backend.h": "void copy(const Array&) override;  // linear(\n#include <tutti/backend/kernel_list.h>\n",
    "backend/elementwise/steps.h": 'struct Floor {\n  static constexpr auto name = "floor";\n};\n'
                                   'struct Or {\n  static constexpr auto name = "or";\n};\n',
    "backend/elementwise/operation_list.h": "#define TUTTI_UNARY(Operation, ...)\n"
                                            "TUTTI_BINARY_BY_HAND(Or)\n/// down\nTUTTI_UNARY(Floor, floor, (by, 1.0))\n",
    "backend/kernel_list.h": "TUTTI_KERNEL(scan, (In, input))\n",
    "autodiff/operations.h": "Tensor floor(const Tensor&);\nTensor operator|(const Tensor&, const Tensor&);\n"
                             "Tensor pad(\n    const Tensor& x,\n    int width = f(0));\nTensor zeros(const Tensor&);\n"
                             "Shape shape_of(const Shape&);\n// Tensor commented(const Tensor&);\n",
    "nn/net.h": "class Net {\n  Tensor forward(const Tensor&);\n};\n",
    "tests/references/tables/elementwise_table.cpp": '    {"or", "operator|"},\n',
    "tests/references/tables/shape_table.cpp": "      TUTTI_REFERENCE(pad, pad(c.x[0])),\n",
    "tests/references/tables/image_table.cpp": "      TUTTI_REFERENCE_OF(wide_pad, pad,\n          pad(c.x[0])),\n",
    "tests/references/operations.cpp": 'reference_files() {\n  return {"shapes"};\n}\n',
    "tests/references/coverage_test.cpp": 'constexpr const char* kNoOperations =\n    "zeros "\n    "record";\n',
    "tests/references/jacobians_test.cpp": 'kNoSecondGradient{\n    {"floor", kStep},\n};\n',
    "tests/zeros_test.cpp": "CHECK(zeros(x));\n",
    "docs/operations.md": "",
}
NAMES = {"TORCH": "empty full: `zeros(x)`\n", "TORCH_LEFT_OUT": {"Complex": "conj"}, "NUMPY": "fix: `floor`, or so\n",
         "NUMPY_LEFT_OUT": {}, "NUMPY_ALONE": "or", "NUMPY_TOO": "pad", "OTHER_REFERENCES": {"wide_pad": "wide"},
         "TESTED": {"tests/zeros_test.cpp": "zeros"}, "HOST": "", "HOST_NOTE": "On the host: nothing."}
VERSIONS = {"torch": "2.15.0", "numpy": "2.4.6"}
SHAPES = (VERSIONS | {"floor.0": "floor", "or.0": "or", "pad.0": "pad widths=1", "pad.1": "pad", "wide_pad.0": "wide_pad"},
          {"floor.0.x0": "BF16", "floor.0.y0": "BF16", "floor.0.g0": "BF16", "or.0.x0": "BOOL", "or.0.x1": "I64",
           "pad.0.x0": "F32", "pad.0.g0": "F32", "pad.0.h0": "F32", "pad.1.x0": "F64", "pad.1.g0": "F64",
           "wide_pad.0.x0": "F32", "wide_pad.0.dy0": "F32", "wide_pad.0.g0": "F32"})
RULES = (VERSIONS | {"sgd.0": "sgd dtype=f32", "pad.1": "pad dtype=f64"}, {"sgd.0.x0": "F32"})


def write_safetensors(path, metadata, dtypes):
    entries = {name: {"dtype": dtype, "shape": [], "data_offsets": [0, 0]} for name, dtype in dtypes.items()}
    text = json.dumps({"__metadata__": metadata, **entries}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


class Page(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.root = pathlib.Path(kept.name)
        for path, text in TREE.items():
            self.write(path, text)
        data = self.root / "tests/references/data"
        data.mkdir()
        write_safetensors(data / "shapes.safetensors", *SHAPES)
        write_safetensors(data / "rules.safetensors", *RULES)
        patch = mock.patch.multiple(operation_names, **NAMES)
        patch.start()
        self.addCleanup(patch.stop)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def run_it(self, *options):
        """The faults that it prints, without what libraries this machine has."""
        output = io.StringIO()
        arguments = ["operation_coverage.py", "--root", str(self.root), *options]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(output), \
             mock.patch.object(operation_coverage, "second_part", lambda root, faults: None):
            status = operation_coverage.main()
        faults = output.getvalue().splitlines()
        self.assertEqual(status, 1 if faults else 0)
        return faults

    def test_whole(self):
        self.assertEqual(self.run_it(), [])
        lines = (self.root / "docs/operations.md").read_text().splitlines()
        for line in ("| floor |  | bf16 | CPU, CUDA | bf16 | 0 | PyTorch 2.15.0 | 1 |",
                     "| or | `operator\\|` | i64 bool | CPU, CUDA | – | – | NumPy 2.4.6 | 1 |",
                     "| pad |  | f64 f32 | CPU, CUDA | f64 f32 | f32 | PyTorch 2.15.0, NumPy 2.4.6 | 2 |",
                     "| wide_pad | `pad` | f32 | CPU, CUDA | f32 | numeric | wide, on PyTorch 2.15.0 | 1 |",
                     "| rules | pad, sgd | f64 f32 | PyTorch 2.15.0, NumPy 2.4.6 |",
                     "| `zeros` | `tests/zeros_test.cpp` |"):
            self.assertIn(line, lines)
        self.assertEqual(self.run_it("--check"), [])

    def check_fault(self, path, text, *parts):
        self.assertEqual(self.run_it(), [])
        self.write(path, text)
        faults = self.run_it("--check")
        for part in parts:
            self.assertTrue(any(part in fault for fault in faults), f"{part} not in {faults}")

    def test_page_of_another_tree(self):
        self.check_fault("docs/operations.md", "# Operations\n", "docs/operations.md is not what")

    def test_operation_in_no_table(self):
        self.check_fault("autodiff/more.h", "std::vector<Tensor> cut(\n    const Tensor&);\n", "cut is declared, and in no table")

    def test_operation_without_cases(self):
        self.check_fault("tests/references/tables/shape_table.cpp",
                         TREE["tests/references/tables/shape_table.cpp"] + "      TUTTI_REFERENCE(cut, cut(c.x[0])),\n",
                         "cut has no case")

    def test_name_that_is_not_declared(self):
        self.check_fault("autodiff/operations.h", TREE["autodiff/operations.h"].replace("zeros", "nulls"),
                         "empty full: `zeros(x)`: no header declares zeros", "nulls is declared, and in no table")

    def test_backend_that_lacks_a_function(self):
        self.check_fault("backend/backend.h", "virtual void linear(const Array&,\n    int) = 0;\n",
                         "the cpu backend lacks linear", "the cuda backend lacks linear")

    def test_backend_that_declares_no_kernels(self):
        self.check_fault("backend/cuda/cuda_backend.h", TREE["backend/cpu/cpu_backend.h"].splitlines()[0],
                         "the cuda backend lacks scan")

    def test_test_that_does_not_name_its_function(self):
        self.check_fault("tests/zeros_test.cpp", "", "tests/zeros_test.cpp is said to test zeros, and does not name it")


class Comparison(unittest.TestCase):
    def faults(self, functions, operations=("relu",), text="fix: `floor`\n", left_out=None):
        faults = []
        lines = operation_coverage.comparison("NumPy", functions, text, left_out or {"Complex": "conj"},
                                              set(operations), faults)
        return lines, faults

    def test_whole(self):
        lines, faults = self.faults(["conj", "fix", "relu"])
        self.assertEqual(faults, [])
        for line in ("3 functions. The same name here: `relu`.", "| `fix` | `floor` |", "- Complex: `conj`."):
            self.assertIn(line, lines)

    def test_faults(self):
        self.assertIn("NumPy: new is in no list of tools/operations/operation_names.py", self.faults(["conj", "fix", "new"])[1])
        self.assertIn("NumPy has no function fix", self.faults(["conj"])[1])
        self.assertIn("NumPy: conj is named twice", self.faults(["conj", "fix"], text="conj fix: `floor`\n")[1])


if __name__ == "__main__":
    unittest.main()
