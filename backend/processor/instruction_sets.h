// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti {

/// An extension of the processor's instructions, and the bit of CPUID that says whether it is there.
struct InstructionSet {
  enum Register { eax, ebx, ecx, edx };
  enum State : unsigned { none = 0x0, ymm = 0x6, zmm = 0xe6 };  // state that the system must save, as XGETBV says

  const char* name;  // null: the end of a list
  unsigned leaf;
  unsigned subleaf;
  Register where;
  unsigned bit;
  State state;
};

/// Those for which the library's code was compiled, and the Meson option that asked for them.
extern const InstructionSet required_instruction_sets[];
extern const char* const required_by_cpu_arch;

/// Level of the instructions that kernels were compiled for, "x86-64-v3": results differ between levels in their last
/// bits.
extern const char* const instruction_level;

/// True if products of bf16 take two steps at once, in an instruction that this processor has and the level's kernels
/// ask for. TUTTI_CPU_BF16=0 in the environment switches it off; Error if that says something else.
bool sums_pairs_of_bf16();

}  // namespace tutti
