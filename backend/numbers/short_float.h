// SPDX-License-Identifier: Apache-2.0
#pragma once

// The 16-bit floating types, as integer code without branches: the same bits on every machine, and loops over them
// vectorise. Rounding is to nearest, ties to even; subnormal numbers are kept; NaN stays NaN.

#include <tutti/backend/numbers/host_device.h>

#include <bit>
#include <cstdint>
#include <type_traits>

namespace tutti {

/// bfloat16: the upper half of an f32. Its range, with 8 significant bits.
struct Bf16 {
  TUTTI_HOST_DEVICE static constexpr std::uint16_t encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);  // a carry goes to the exponent, as it should
    const std::uint32_t quiet = bits | 0x00400000U;
    return static_cast<std::uint16_t>(((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded) >> 16U);
  }
  TUTTI_HOST_DEVICE static constexpr float decode(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
};

/// IEEE 754 binary16: 11 significant bits, up to 65504; what rounds to more becomes infinite. Below 2^-14 the spacing
/// is 2^-24.
struct F16 {
  TUTTI_HOST_DEVICE static constexpr std::uint16_t encode(float value) {
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
  TUTTI_HOST_DEVICE static constexpr float decode(std::uint16_t half) {
    const std::uint32_t magnitude = half & 0x7FFFU;
    const bool is_subnormal = magnitude < 0x0400U;
    // Exponents differ by 112; a subnormal number is read as 2^-14 more than it is.
    std::uint32_t exponent = is_subnormal ? 113U << 23U : 112U << 23U;
    exponent = magnitude >= 0x7C00U ? 224U << 23U : exponent;
    const float value = std::bit_cast<float>((magnitude << 13U) + exponent) - (is_subnormal ? 0x1p-14F : 0.0F);
    const auto result = std::bit_cast<std::uint32_t>(value);
    return std::bit_cast<float>(result | ((half & 0x8000U) << 16U));
  }
};

/// Returns the value as it arrives after a journey in that format.
template <class Format> TUTTI_HOST_DEVICE constexpr float rounded(float value) {
  return Format::decode(Format::encode(value));
}

/// The f32 below or above `value` whose last bit is 1, or `value` itself where that is an f32. It rounds to 16 bits as
/// `value` does: the last bit remembers that something was cut off.
TUTTI_HOST_DEVICE constexpr float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (back == value || value != value || (bits & 1U) != 0) return nearest;
  const bool outside = value < 0 ? back < value : back > value;
  bits += outside ? 0xFFFFFFFFU : 1U;
  return std::bit_cast<float>(bits);
}

/// An element of 16 bits. Arithmetic on it is arithmetic on f32; only making one rounds, and once.
template <class Format> struct ShortFloat {
  std::uint16_t bits;

  ShortFloat() = default;
  template <class T>
    requires std::is_arithmetic_v<T>
  TUTTI_HOST_DEVICE explicit constexpr ShortFloat(T value) : bits(Format::encode(to_f32(value))) {}
  TUTTI_HOST_DEVICE constexpr operator float() const { return Format::decode(bits); }

  /// The next smaller number, of a finite one.
  constexpr ShortFloat below() const {
    ShortFloat next = *this;
    if ((bits & 0x7FFFU) == 0)
      next.bits = 0x8001U;
    else
      next.bits = static_cast<std::uint16_t>(bits + ((bits & 0x8000U) != 0 ? 1U : 0xFFFFU));
    return next;
  }

 private:
  template <class T> TUTTI_HOST_DEVICE static constexpr float to_f32(T value) {
    if constexpr (std::is_same_v<T, float>)
      return value;
    else
      return rounded_to_odd(static_cast<double>(value));  // i64 beyond 2^53 is rounded to f64 before
  }
};

using BFloat16 = ShortFloat<Bf16>;
using Float16 = ShortFloat<F16>;

}  // namespace tutti
