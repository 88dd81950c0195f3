// SPDX-License-Identifier: Apache-2.0
#pragma once

// Elements of 16 bits as vectors of the f32 that they are computed in, and back: the values of ShortFloat
// (backend/numbers/short_float.h) in every bit. Other elements are themselves.

#include <tutti/backend/cpu/packs/native_vector.h>
#include <tutti/backend/dtype.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tutti {

namespace wide_lanes {

/// Elements of 16 bits, as many as a vector has lanes of 32.
using Shorts [[gnu::vector_size(kVectorBytes / 2)]] = std::uint16_t;

TUTTI_ALWAYS_INLINE Shorts load_shorts(const void* from) {
  Shorts shorts;
  std::memcpy(&shorts, from, sizeof shorts);
  return shorts;
}

/// The lanes' lower halves.
TUTTI_ALWAYS_INLINE Shorts shorts_of(const Native<std::int32_t>& lanes) {
  return __builtin_convertvector(lanes, Shorts);
}

TUTTI_ALWAYS_INLINE Native<float> widened(const Shorts& shorts, BFloat16*) {
  return (Native<float>)(__builtin_convertvector(shorts, Native<std::int32_t>) << 16);
}
TUTTI_ALWAYS_INLINE Shorts narrowed(const Native<float>& values, BFloat16*) {
  const auto bits = (Native<std::int32_t>)values;
  const Native<std::int32_t> rounded = bits + 0x7FFF + ((bits >> 16) & 1);
  return shorts_of(((bits & 0x7FFFFFFF) > 0x7F800000 ? bits | 0x00400000 : rounded) >> 16);
}

#if defined(__F16C__) || defined(TUTTI_AVX512)
TUTTI_ALWAYS_INLINE Native<float> widened(const Shorts& shorts, Float16*) {
#if defined(TUTTI_AVX512)
  constexpr auto kAll = static_cast<__mmask16>(-1);  // GCC 12 warns of what the plain one leaves undefined
  const auto values = (Native<float>)_mm512_maskz_cvtph_ps(kAll, (__m256i)shorts);
#elif defined(__AVX2__)
  const auto values = (Native<float>)_mm256_cvtph_ps((__m128i)shorts);
#else
  __m128i bits{};
  std::memcpy(&bits, &shorts, sizeof shorts);
  const auto values = (Native<float>)_mm_cvtph_ps(bits);
#endif
  return values;
}
TUTTI_ALWAYS_INLINE Shorts narrowed(const Native<float>& values, Float16*) {
  Shorts shorts;
#if defined(TUTTI_AVX512)
  constexpr auto kAll = static_cast<__mmask16>(-1);
  shorts = (Shorts)_mm512_maskz_cvtps_ph(kAll, values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
  shorts = (Shorts)_mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  const __m128i bits = _mm_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  std::memcpy(&shorts, &bits, sizeof shorts);
#endif
  const Shorts nan = (shorts & 0x8000) | 0x7E00;  // ShortFloat has one of each sign
  return (shorts & 0x7FFF) > 0x7C00 ? nan : shorts;
}
#else
TUTTI_ALWAYS_INLINE Native<float> widened(const Shorts& shorts, Float16*) {
  Native<float> values{};
  for (std::int64_t i = 0; i < kNativeLanes<float>; ++i) values[i] = F16::decode(shorts[i]);
  return values;
}
TUTTI_ALWAYS_INLINE Shorts narrowed(const Native<float>& values, Float16*) {
  Shorts shorts{};
  for (std::int64_t i = 0; i < kNativeLanes<float>; ++i) shorts[i] = F16::encode(values[i]);
  return shorts;
}
#endif

using Four [[gnu::vector_size(16)]] = float;

TUTTI_ALWAYS_INLINE Four load_four(const BFloat16* from) {
  using Bits [[gnu::vector_size(16)]] = std::int32_t;
  using FourShorts [[gnu::vector_size(8)]] = std::uint16_t;
  FourShorts shorts;
  std::memcpy(&shorts, from, sizeof shorts);
  return (Four)(__builtin_convertvector(shorts, Bits) << 16);
}
TUTTI_ALWAYS_INLINE Four load_four(const Float16* from) {
#if defined(__F16C__)
  return (Four)_mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#else
  Four values = {from[0], from[1], from[2], from[3]};
  return values;
#endif
}

}  // namespace wide_lanes

/// The element types that are stored in 16 bits and computed in f32.
template <class S> inline constexpr bool is_short_float = std::is_same_v<S, BFloat16> || std::is_same_v<S, Float16>;

/// A vector of what kNativeLanes<ComputedIn<S>> elements hold.
template <class S> TUTTI_ALWAYS_INLINE Native<ComputedIn<S>> load_wide(const S* from) {
  if constexpr (is_short_float<S>)
    return wide_lanes::widened(wide_lanes::load_shorts(from), static_cast<S*>(nullptr));
  else
    return native_load(from);
}

/// The first `count` of them, zeros behind them; nothing else is read.
template <class S> TUTTI_ALWAYS_INLINE Native<ComputedIn<S>> load_wide_first(const S* from, std::int64_t count) {
  if constexpr (is_short_float<S>) {
#if defined(TUTTI_AVX512)
    const std::int64_t taken = std::clamp<std::int64_t>(count, 0, kNativeLanes<float>);
    const auto shorts = _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1U << taken) - 1U), from);
    return wide_lanes::widened((wide_lanes::Shorts)shorts, static_cast<S*>(nullptr));
#else
    S elements[kNativeLanes<float>] = {};
    if (count > 0)
      std::memcpy(elements, from, static_cast<std::size_t>(std::min(count, kNativeLanes<float>)) * sizeof(S));
    return load_wide<S>(elements);
#endif
  } else {
    return native_load_first<S>(from, count);
  }
}

/// Writes a vector as elements, each rounded once.
template <class S> TUTTI_ALWAYS_INLINE void store_narrow(const Native<ComputedIn<S>>& values, S* to) {
  if constexpr (is_short_float<S>) {
    const wide_lanes::Shorts shorts = wide_lanes::narrowed(values, static_cast<S*>(nullptr));
    std::memcpy(to, &shorts, sizeof shorts);
  } else {
    native_store<S>(values, to);
  }
}

/// Copies `count` elements as what they are computed in.
template <class S> TUTTI_ALWAYS_INLINE void widen(const S* from, ComputedIn<S>* to, std::int64_t count) {
  using T = ComputedIn<S>;
  std::int64_t i = 0;
  if constexpr (is_short_float<S>)
    for (; i + kNativeLanes<T> <= count; i += kNativeLanes<T>) native_store<T>(load_wide(from + i), to + i);
  for (; i < count; ++i) to[i] = static_cast<T>(from[i]);
}

/// Copies `count` elements back, each rounded once.
template <class S> TUTTI_ALWAYS_INLINE void narrow(const ComputedIn<S>* from, S* to, std::int64_t count) {
  using T = ComputedIn<S>;
  std::int64_t i = 0;
  if constexpr (is_short_float<S>)
    for (; i + kNativeLanes<T> <= count; i += kNativeLanes<T>) store_narrow<S>(native_load(from + i), to + i);
  for (; i < count; ++i) to[i] = static_cast<S>(from[i]);
}

}  // namespace tutti
