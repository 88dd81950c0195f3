// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

// The 16-bit types in which gradients travel, as integer code without branches: the same bits on every machine, and
// loops over them vectorise. Rounding is to nearest, ties to even; subnormal numbers are kept; NaN stays NaN.

namespace tutti {

/// bfloat16: the upper half of an f32. Its range, with 8 significant bits.
struct Bf16 {
  static constexpr std::uint16_t encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);  // a carry goes to the exponent, as it should
    const std::uint32_t quiet = bits | 0x00400000U;
    return static_cast<std::uint16_t>(((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded) >> 16U);
  }
  static constexpr float decode(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
};

/// IEEE 754 binary16: 11 significant bits, up to 65504; what rounds to more becomes infinite. Below 2^-14 the spacing
/// is 2^-24.
struct F16 {
  static constexpr std::uint16_t encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    // Normal: exponents differ by 112; 13 bits are rounded away.
    const std::uint32_t normal = (magnitude - (112U << 23U) + 0xFFFU + ((magnitude >> 13U) & 1U)) >> 13U;
    // Subnormal: adding 1/2 leaves what is a multiple of 2^-24 in the last bits, rounded by the addition.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F);
    std::uint32_t result = magnitude < (113U << 23U) ? subnormal : normal;
    result = magnitude >= (143U << 23U) ? 0x7C00U : result;  // 65536 and more
    result = magnitude > 0x7F800000U ? 0x7E00U : result;
    return static_cast<std::uint16_t>(result | ((bits >> 16U) & 0x8000U));
  }
  static constexpr float decode(std::uint16_t half) {
    const std::uint32_t magnitude = half & 0x7FFFU;
    const std::uint32_t normal = (magnitude << 13U) + (112U << 23U);
    const auto subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
    std::uint32_t result = magnitude < 0x0400U ? subnormal : normal;
    result = magnitude >= 0x7C00U ? (magnitude << 13U) | 0x7F800000U : result;
    return std::bit_cast<float>(result | ((half & 0x8000U) << 16U));
  }
};

/// As it arrives after a journey in that type.
template <class Wire> constexpr float rounded(float value) { return Wire::decode(Wire::encode(value)); }

}  // namespace tutti
