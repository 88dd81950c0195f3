// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random numbers as functions of an element's index: written once for every kind of device.

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/elementwise/operation.h>
#include <tutti/backend/formulas/normal_quantile.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <type_traits>

namespace tutti {

/// Four 32-bit words that are a function of (seed, stream, counter): Philox 4x32-10 of Salmon et al., "Parallel Random
/// Numbers: As Easy as 1, 2, 3" (2011). The same on every kind of device. Uniform numbers: element i uses counter i /
/// 4, word i % 4 for f32 (top 24 bits), and the pair of words from 2 (i % 2) on of counter i / 2 for f64 (top 53 bits).
/// Normal numbers: two neighbours share their uniform numbers u, v in Box and Muller's transform, computed in f64: the
/// even one is sqrt(-2 log u) cos(2 pi v), the odd one the sine. f32: u = (w + 1) / 2^32 and v = w' / 2^32 of the two
/// words of the pair; f64: of the counter's first and second pair of words, with 2^-53 added to u. Truncated normal
/// numbers: the quantile of low + (high - low) u, u as for uniform numbers of f64 or from all 32 bits of f32's word,
/// and in the middle between its neighbours.
struct Philox {
  std::uint32_t word[4];
};
TUTTI_HOST_DEVICE constexpr Philox philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U),
                        static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32U)};
  std::uint32_t k[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ULL * c[0];
    const std::uint64_t p1 = 0xCD9E8D57ULL * c[2];
    const std::uint32_t next[4] = {static_cast<std::uint32_t>(p1 >> 32U) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
                                   static_cast<std::uint32_t>(p0 >> 32U) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    k[0] += 0x9E3779B9U;
    k[1] += 0xBB67AE85U;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

/// The elements that one counter gives: 4 of f32 or 2 of f64.
template <class T> struct Drawn {
  static constexpr std::size_t kElements = 16 / sizeof(T);
  T element[kElements];
};

namespace philox_formulas {

TUTTI_HOST_DEVICE constexpr std::uint64_t join(std::uint32_t low, std::uint32_t high) {
  return low | (static_cast<std::uint64_t>(high) << 32U);
}
/// [0, 1) from the top 53 bits.
TUTTI_HOST_DEVICE constexpr double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11U) * 0x1p-53; }

/// [a, b): rounding may reach b, which is then replaced by the element below.
template <class T> TUTTI_HOST_DEVICE Drawn<T> uniform(const RandomCall& call, const Philox& bits) {
  Drawn<T> drawn;
  const auto begin = static_cast<T>(call.a);
  const auto end = static_cast<T>(call.b);
  for (std::size_t i = 0; i < Drawn<T>::kElements; ++i) {
    double u = 0;
    if constexpr (std::is_same_v<T, float>)
      u = static_cast<double>(bits.word[i] >> 8U) * 0x1p-24;
    else
      u = unit(join(bits.word[2 * i], bits.word[2 * i + 1]));
    const auto value = static_cast<T>(call.a + (call.b - call.a) * u);
    drawn.element[i] = value < end || value == begin ? value : std::nextafter(end, begin);
  }
  return drawn;
}

/// Box and Muller's transform: two normal numbers from two uniform ones, of which the first is not 0.
struct NormalPair {
  double number[2];
};
TUTTI_HOST_DEVICE inline NormalPair normal_pair(double first, double second) {
  const double radius = std::sqrt(-2.0 * std::log(first));
  const double angle = 2.0 * std::numbers::pi * second;
  return {{radius * std::cos(angle), radius * std::sin(angle)}};
}

template <class T> TUTTI_HOST_DEVICE Drawn<T> normal(const RandomCall& call, const Philox& bits) {
  Drawn<T> drawn;
  for (std::size_t i = 0; i < Drawn<T>::kElements; i += 2) {
    NormalPair pair{};
    if constexpr (std::is_same_v<T, float>)
      pair = normal_pair((bits.word[i] + 1.0) * 0x1p-32, bits.word[i + 1] * 0x1p-32);
    else
      pair = normal_pair(unit(join(bits.word[0], bits.word[1])) + 0x1p-53, unit(join(bits.word[2], bits.word[3])));
    for (std::size_t j = 0; j < 2; ++j) drawn.element[i + j] = static_cast<T>(call.a + call.b * pair.number[j]);
  }
  return drawn;
}

template <class T> TUTTI_HOST_DEVICE Drawn<T> truncated_normal(const RandomCall& call, const Philox& bits) {
  Drawn<T> drawn;
  for (std::size_t i = 0; i < Drawn<T>::kElements; ++i) {
    double u = 0;
    if constexpr (std::is_same_v<T, float>)
      u = (bits.word[i] + 0.5) * 0x1p-32;
    else
      u = (static_cast<double>(join(bits.word[2 * i], bits.word[2 * i + 1]) >> 12U) + 0.5) * 0x1p-52;  // < 1
    const double level = call.low_level + (call.high_level - call.low_level) * u;
    drawn.element[i] = static_cast<T>(call.a + call.b * normal_quantile(level));
  }
  return drawn;
}

}  // namespace philox_formulas

/// The call with what stands at its place in device memory; kernels begin with it.
TUTTI_HOST_DEVICE inline RandomCall placed(RandomCall call) {
  if (call.place == nullptr) return call;
  call.seed = call.place->seed;
  call.stream = call.place->stream;
  call.offset += call.place->offset;
  call.place = nullptr;
  return call;
}

/// x factor where kept, else 0: in f64 for f64, else in f32, rounded once.
template <class T> TUTTI_HOST_DEVICE T scaled_if(bool kept, T x, double factor) {
  using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;
  return kept ? T(static_cast<Computed>(x) * static_cast<Computed>(factor)) : T(0.0F);
}

/// The elements from `counter * Drawn<T>::kElements` on.
template <class T> TUTTI_HOST_DEVICE Drawn<T> draw(const RandomCall& call, std::uint64_t counter) {
  const Philox bits = philox(call.seed, call.stream, counter);
  switch (call.kind) {
    case RandomCall::Kind::uniform: return philox_formulas::uniform<T>(call, bits);
    case RandomCall::Kind::normal: return philox_formulas::normal<T>(call, bits);
    case RandomCall::Kind::truncated_normal: break;
  }
  return philox_formulas::truncated_normal<T>(call, bits);
}

}  // namespace tutti
