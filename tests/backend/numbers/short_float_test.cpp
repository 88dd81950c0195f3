// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/numbers/short_float.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// By the definition of the formats, in f64.
double value_of(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? std::nan("") : sign * double{kInfinity};
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

template <class Wire> struct Format;
template <> struct Format<Bf16> {
  static constexpr int exponent_bits = 8, fraction_bits = 7;
};
template <> struct Format<F16> {
  static constexpr int exponent_bits = 5, fraction_bits = 10;
};

template <class Wire> double value_of(std::uint16_t bits) {
  return value_of(bits, Format<Wire>::exponent_bits, Format<Wire>::fraction_bits);
}

// The nearest of all the format's numbers, of two the even one; one step beyond the largest stands for infinity.
template <class Wire> std::uint16_t nearest(float value) {
  static constexpr std::uint16_t infinity = ((1 << Format<Wire>::exponent_bits) - 1) << Format<Wire>::fraction_bits;
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(static_cast<double>(value));
  const auto number = [](std::uint16_t bits) {
    return bits < infinity ? value_of<Wire>(bits) : 2 * value_of<Wire>(infinity - 1) - value_of<Wire>(infinity - 2);
  };
  std::uint16_t low = 0;
  for (std::uint16_t high = infinity; low < high;) {  // the last that is not above
    const auto middle = static_cast<std::uint16_t>((low + high + 1) / 2);
    if (number(middle) <= magnitude)
      low = middle;
    else
      high = static_cast<std::uint16_t>(middle - 1);
  }
  if (low == infinity) return sign | infinity;
  const double below = magnitude - number(low);
  const double above = number(static_cast<std::uint16_t>(low + 1)) - magnitude;
  const bool up = above < below || (above == below && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | (low + (up ? 1 : 0)));
}

template <class Wire> void check_rounding(float value) {
  if (Wire::encode(value) == nearest<Wire>(value)) return;
  CAPTURE(value);
  CHECK(Wire::encode(value) == nearest<Wire>(value));
}

}  // namespace

TEST_CASE_TEMPLATE("short floats: all 65,536 patterns have their value and survive the journey", Wire, Bf16, F16) {
  int wrong = 0;
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const float decoded = Wire::decode(bits);
    const double want = value_of<Wire>(bits);
    if (std::isnan(want))
      wrong += !std::isnan(decoded) || !std::isnan(rounded<Wire>(decoded));
    else
      wrong += static_cast<double>(decoded) != want || std::signbit(decoded) != std::signbit(want) ||
               Wire::encode(decoded) != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("short floats: rounds to nearest, ties to even", Wire, Bf16, F16) {
  for (std::uint32_t pattern = 0; pattern < 0x8000; ++pattern) {  // around every number and every middle
    const float here = Wire::decode(static_cast<std::uint16_t>(pattern));
    const float next = Wire::decode(static_cast<std::uint16_t>(pattern + 1));
    if (!std::isfinite(here) || !std::isfinite(next)) continue;
    const float middle = here + (next - here) / 2;
    for (const float value : {here, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, kInfinity)}) {
      check_rounding<Wire>(value);
      check_rounding<Wire>(-value);
    }
  }
  std::mt19937 random(3);
  for (int i = 0; i < 200'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(value)) check_rounding<Wire>(value);
  }
}

TEST_CASE("short floats: the ends of the range") {
  CHECK(rounded<F16>(65504.0F) == 65504.0F);
  CHECK(rounded<F16>(std::nextafter(65520.0F, 0.0F)) == 65504.0F);
  CHECK(rounded<F16>(65520.0F) == kInfinity);
  CHECK(rounded<F16>(-1e30F) == -kInfinity);
  CHECK(rounded<F16>(kInfinity) == kInfinity);
  CHECK(rounded<F16>(0x1p-25F) == 0.0F);  // a tie, to even
  CHECK(rounded<F16>(0x1.000002p-25F) == 0x1p-24F);
  CHECK(rounded<Bf16>(std::numeric_limits<float>::max()) == kInfinity);
  CHECK(rounded<Bf16>(-kInfinity) == -kInfinity);
  CHECK(rounded<Bf16>(std::numeric_limits<float>::denorm_min()) == 0.0F);
  CHECK(std::signbit(rounded<Bf16>(-0.0F)));
  CHECK(std::signbit(rounded<F16>(-0.0F)));
  for (const std::uint32_t nan : {0x7F800001U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU, 0x7FC00000U}) {
    CHECK(std::isnan(rounded<Bf16>(std::bit_cast<float>(nan))));
    CHECK(std::isnan(rounded<F16>(std::bit_cast<float>(nan))));
  }
}

TEST_SUITE_END();
