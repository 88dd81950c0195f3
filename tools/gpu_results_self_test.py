#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_results.py on what stages wrote: whole results, some that broke off, and none."""

import json
import pathlib
import tempfile
import unittest

import gpu_results

MACHINE = {"Date": "2026-01-02", "GPU": "NVIDIA H200", "Driver": "580.65.06", "CUDA": "13.0", "NCCL": "2.28.9",
           "Compiler": "g++ 13.3.0", "Commit": "0123abc"}
STAGES = """build 0 150 240
tests 1 88 160
ranks 0 21 90
benches 0 70 80
torch 77 1 45
memcheck 0 55 60
racecheck 124 60 60
"""
TESTS = {"cuda": {"lacking": "", "executables": {
    "backend_test": {"passed": 71, "failed": 2, "skipped": 0, "failures": ["gather picks", "softmax"], "seconds": 9.2},
    "nn_test": {"passed": 41, "failed": 0, "skipped": 0, "failures": [], "seconds": 3.0},
    "distributed_test": {"passed": 0, "failed": 0, "skipped": 160, "failures": [], "seconds": 0}}}}
RANKS = [{"world": 2, "result": "passed", "difference": 2.1e-8, "step_seconds": 0.0123, "exposed_seconds": 0.0021},
         {"world": 4, "result": "failed"}]


def row(table, name, seconds, work, peer="", peer_seconds=0, peer_work=0):
    return {"table": table, "name": name, "seconds": seconds, "work": work, "peer": peer,
            "peer_seconds": peer_seconds, "peer_work": peer_work, "device": "cuda:0"}


MEMORY = [row("memory", "copy of the device's", 0.0005, 2e9),
          row("memory", "add", 0.00075, 3e9, "copy", 0.0005, 2e9),
          row("memory", "sum of all", 0.0005, 1e9, "copy", 0.0005, 2e9)]
MATMUL = [row("matmul", "f32", 0.02, 1.1e12, "cuBLAS", 0.0198, 1.1e12), row("matmul", "bf16", 0.0015, 1.1e12)]
TF32 = [row("matmul", "tf32", 0.003, 1.1e12, "cuBLAS", 0.003, 1.1e12), row("matmul", "bf16", 0.0015, 1.1e12)]
TRAINING = [row("training", "mlp", 0.0004, 64), row("training", "cnn", 0.0006, 64)]
TORCH = [{"name": "mlp", "seconds": 0.0006, "work": 64, "torch": "2.11.0"},
         {"name": "8 heads of 64", "seconds": 0.001, "work": 0, "torch": "2.11.0"}]
MEMCHECK = "========= COMPUTE-SANITIZER\n[doctest] ...\n========= ERROR SUMMARY: 0 errors\n"
FAULTY = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at softmax_lines(float *)+0x70 in softmax.cu:31
========= ERROR SUMMARY: 3 errors
"""
COMPARISON = {"cuda": {"lacking": "", "not_run": 1, "executables": {
    "comparison": {"passed": 6, "failed": 1, "skipped": 0, "failures": ["comparison: reductions"], "seconds": 4.5}}}}
ATTENTION = [row("attention", "8 heads of 64", 0.002, 4e9)]
GPT2 = [row("gpt2", "gpt2_124m", 0.1, 8192)]
PROFILE = """== softmax_lines
==PROF== Connected to process 12
  softmax_lines(float *) (132, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    Memory Throughput                 %        81.20
    DRAM Throughput                   %        80.93
    Duration                         us       143.10
    Compute (SM) Throughput           %        30.10
    Memory Throughput      Tbyte/second         3.80
    Registers Per Thread register/thread          40
    Achieved Occupancy                %        88.01
== step_parameters
==ERROR== No kernels were profiled.
"""


class Document(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.kept.name)

    def tearDown(self):
        self.kept.cleanup()

    def write(self, **files):
        for name, content in files.items():
            name = name.replace("_dot_", ".")
            (self.folder / name).write_text(content if isinstance(content, str) else json.dumps(content))

    def write_all(self):
        (self.folder / "memcheck").mkdir()
        (self.folder / "memcheck/0001.txt").write_text(MEMCHECK)
        (self.folder / "memcheck/0002.txt").write_text(FAULTY)
        (self.folder / "memcheck/0003.txt").write_text("========= COMPUTE-SANITIZER\n")
        self.write(machine_dot_json=MACHINE, stages_dot_txt=STAGES, tests_dot_json=TESTS, ranks_dot_json=RANKS,
                   memory_dot_json=MEMORY, matmul_dot_json=MATMUL, matmul_tf32_dot_json=TF32,
                   training_dot_json=TRAINING, torch_dot_json=TORCH, comparison_dot_json=COMPARISON,
                   attention_dot_json=ATTENTION, gpt2_dot_json=GPT2, profile_dot_log=PROFILE,
                   torch_dot_log="PyTorch cannot be imported: No module named 'torch'\n")

    def lines(self):
        return gpu_results.document(self.folder).splitlines()

    def check_lines(self, *expected):
        lines = self.lines()
        for line in expected:
            self.assertIn(line, lines)

    def test_whole(self):
        self.write_all()
        self.check_lines(
            "| GPU | NVIDIA H200 |",
            "| Commit | 0123abc |",
            "| build | done | 150 of 240 |",
            "| tests | failed (status 1) | 88 of 160 |",
            "| torch | skipped: PyTorch cannot be imported: No module named 'torch' | 1 of 45 |",
            "| racecheck | out of time | 60 of 60 |",
            "On cuda devices: 112 passed, 2 failed, 160 skipped.",
            "| backend_test | 71 | 2 | 0 | 9.2 |",
            "- backend_test: gather picks",
            "| 2 | passed | 2.1e-08 | 12.30 | 2.10 |",
            "| 4 | failed | nan | nan | nan |",
            "| copy of the device's | 0.500 | 4,000.0 |  |",
            "| add | 0.750 | 4,000.0 | 100.0 % |",
            "| sum of all | 0.500 | 2,000.0 | 50.0 % |",
            "| f32 | 55.0 | 55.6 | 99.0 % |",
            "| bf16 | 733.3 |  |  |",
            "| tf32 | 366.7 | 366.7 | 100.0 % |",
            "| mlp | 0.400 | 0.600 | 1.50 |",
            "| cnn | 0.600 | not measured |  |",
            "On cuda devices: 6 passed, 1 failed, 0 skipped, 1 not run.",
            "- comparison: comparison: reductions",
            "## Benches: attention",
            "| 8 heads of 64 | 2.000 | 2,000.0 | 1.000 | 0.50 |",
            "| gpt2_124m | 100.000 | 81.9 | not measured |  |",
            "| memcheck | 3 errors in 2 of 3 processes |",
            "- 1 times: Invalid __global__ write of size 4 bytes",
            "| softmax_lines | 143.10 us | 81.20 | 80.93 | 30.10 | 88.01 | 40 |",
            "| racecheck | out of time |")

    def test_broken_off(self):
        self.write_all()
        self.write(memory_dot_json='[{"table": "mem', tests_dot_json="", stages_dot_txt="build 124 240 240\n")
        self.check_lines("| build | out of time | 240 of 240 |", "Not measured.", "None ran.")

    def test_skipped(self):
        self.write(tests_dot_json={"cuda": {"lacking": "[device] cuda:0: no driver", "executables": {
            "nn_test": {"passed": 0, "failed": 0, "skipped": 41, "failures": [], "seconds": 0}}}})
        self.check_lines("On cuda devices: 0 passed, 0 failed, 41 skipped. Skipped, for [device] cuda:0: no driver.")

    def test_nothing(self):
        lines = self.lines()
        self.assertEqual(lines[0], "# Results on a GPU")
        self.assertEqual(lines.count("Not measured."), 5)
        self.assertTrue(gpu_results.document(self.folder).endswith("Not measured.\n"))


if __name__ == "__main__":
    unittest.main()
