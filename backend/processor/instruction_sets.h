// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

/// Ways to multiply bf16: f32 operations on widened elements, the instruction that adds two products
/// (AVX512-BF16), or the processor's tiles (AMX). Their sums differ in the last bits.
enum class Bf16Products : std::uint8_t { widened, pairs, tiles };

/// The way that this process takes: the most that the processor, the system and the level's kernels have; but not pairs
/// on Intel's processors, where two f32 operations take less time. TUTTI_CPU_BF16 in the environment says another: 0, 1
/// or 2, in this order, where it is there. Error if it says something else.
Bf16Products products_of_bf16();

/// That way in words: "AMX tiles", "AVX512-BF16", "widened to f32".
const char* name_of(Bf16Products);

/// Whether convolutions may be computed by Winograd's filtering (backend/cpu/convolution/winograd.h):
/// TUTTI_CPU_WINOGRAD=0 in the environment says no, 1 yes, and nothing yes. Error if it says something else.
bool uses_winograd();

}  // namespace tutti
