// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products of bf16 whose sums take two steps at once: a packed element is a pair, the earlier step in its lower half.

#include <tutti/backend/cpu/packs/native_vector.h>
#include <tutti/backend/processor/instruction_sets.h>

#include <cstdint>
#include <type_traits>

namespace tutti {

/// The arithmetic of product_tile.h on pairs. `Instruction::add` returns sum + a.lower b.lower + a.upper b.upper of
/// each lane.
template <class Instruction> struct PairDots {
  using Sum = float;
  using Packed = std::int32_t;
  static constexpr std::int64_t kSteps = 2;
  static constexpr std::int64_t kUnit = 1;

  TUTTI_ALWAYS_INLINE static Native<float> add(const Native<std::int32_t>& a, const Native<std::int32_t>& b,
                                               const Native<float>& sum) {
    return Instruction::add(a, b, sum);
  }
};

/// The sum of two products in f32 operations, in the instruction's order, for processors that have none.
struct ComputedDot {
  TUTTI_ALWAYS_INLINE static Native<float> add(const Native<std::int32_t>& a, const Native<std::int32_t>& b,
                                               const Native<float>& sum) {
    constexpr std::int32_t kUpper = -0x10000;
    const Native<float> of_upper = native_fma((Native<float>)(a & kUpper), (Native<float>)(b & kUpper), sum);
    return native_fma((Native<float>)(a << 16), (Native<float>)(b << 16), of_upper);
  }
};

/// VDPBF16PS. It takes subnormal numbers for zeros, and gives none. Written as an instruction because AVX512-BF16 is
/// asked for at run time: x86-64-v4 has it not. Levels below have no way to it, and compute.
struct ProcessorDot {
#if defined(TUTTI_AVX512)
  static bool is_there() { return products_of_bf16() == Bf16Products::pairs; }
  TUTTI_ALWAYS_INLINE static Native<float> add(const Native<std::int32_t>& a, const Native<std::int32_t>& b,
                                               Native<float> sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
#else
  static constexpr bool is_there() { return false; }
  TUTTI_ALWAYS_INLINE static Native<float> add(const Native<std::int32_t>& a, const Native<std::int32_t>& b,
                                               const Native<float>& sum) {
    return ComputedDot::add(a, b, sum);
  }
#endif
};

}  // namespace tutti
