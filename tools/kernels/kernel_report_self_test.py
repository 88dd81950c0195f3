#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/kernels/kernel_report.py: what it reads from cuobjdump's text, of which these are pieces."""

import unittest

import kernel_report

USAGE = """
Fatbin elf code:
================
Resource usage:
 Common:
  GLOBAL:0
 Function _ZN5tutti5firstEv:
  REG:40 STACK:16 SHARED:1024 LOCAL:0 CONSTANT[0]:608 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _ZN5tutti6secondEv:
  REG:255 STACK:0 SHARED:0 LOCAL:24 CONSTANT[0]:608 TEXTURE:0 SURFACE:0 SAMPLER:0
"""

SASS = """
	code for sm_90
		Function : wide
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0030*/                   LDS.128 R4, [R2] ;
		..........

		Function : narrow
        /*0000*/                   LDG.E.CONSTANT R4, desc[UR4][R2.64] ;
        /*0010*/                   LDG.E.64 R4, desc[UR4][R2.64] ;
        /*0020*/                   STG.E.128 desc[UR4][R2.64], R4 ;
"""


class KernelReport(unittest.TestCase):
    def test_usage(self):
        self.assertEqual(kernel_report.USAGE.findall(USAGE), [("_ZN5tutti5firstEv", "40", "16", "1024", "0"),
                                                              ("_ZN5tutti6secondEv", "255", "0", "0", "24")])

    def test_loads_of_16_bytes_are_counted_by_kernel(self):
        self.assertEqual(kernel_report.wide_loads(SASS), {"wide": 2, "narrow": 0})
        self.assertEqual(kernel_report.wide_loads(""), {})

    def test_narrow_kernels_are_told(self):
        quads = "void tutti::cuda_kernels::softmax_lines<float, (tutti::SoftmaxKind)0, true>(int)"
        others = "void tutti::cuda_kernels::softmax_lines<float, (tutti::SoftmaxKind)0, false>(int)"
        self.assertEqual(kernel_report.narrow_kernels("softmax.cu", {quads: 1, others: 0}), [])
        self.assertEqual(kernel_report.narrow_kernels("softmax.cu", {quads: 0, others: 0}),
                         [f"softmax.cu: {quads} has no load of 16 bytes"])
        self.assertEqual(len(kernel_report.narrow_kernels("softmax.cu", {others: 0})), 1)

    def test_faults_of_an_object(self):
        dumped, demangled = kernel_report.dumped, kernel_report.demangled
        try:
            kernel_report.dumped = lambda path, what: USAGE if what == "--dump-resource-usage" else SASS
            kernel_report.demangled = list
            faults = kernel_report.faults_of(kernel_report.pathlib.Path("build/softmax.cu.o"))
            other = kernel_report.faults_of(kernel_report.pathlib.Path("build/gather.cu.o"))
        finally:
            kernel_report.dumped, kernel_report.demangled = dumped, demangled
        self.assertEqual(other, ["gather.cu: _ZN5tutti6secondEv spills 24 bytes"])
        self.assertEqual(faults[:1], ["softmax.cu: _ZN5tutti6secondEv spills 24 bytes"])
        self.assertEqual(len(faults), 2)

    def test_base_name(self):
        name = "void tutti::cuda_kernels::(anonymous namespace)::softmax_lines<float, true>(int)"
        self.assertEqual(kernel_report.base_name(name), "softmax_lines")


if __name__ == "__main__":
    unittest.main()
