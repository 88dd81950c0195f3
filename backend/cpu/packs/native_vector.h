// SPDX-License-Identifier: Apache-2.0
#pragma once

// The widest vectors that the target has, as the compiler's own vector types: operators, comparisons and selection are
// the language's, for every element type. Only the two instructions without an operator are named here.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define TUTTI_ALWAYS_INLINE inline __attribute__((always_inline))

namespace tutti {

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define TUTTI_AVX512
inline constexpr std::size_t kVectorBytes = 64;
#define TUTTI_VECTOR_INTRINSIC(name, type) _mm512_##name##_##type
#elif defined(__AVX2__)
inline constexpr std::size_t kVectorBytes = 32;
#define TUTTI_VECTOR_INTRINSIC(name, type) _mm256_##name##_##type
#else
inline constexpr std::size_t kVectorBytes = 16;
#define TUTTI_VECTOR_INTRINSIC(name, type) _mm_##name##_##type
#endif

template <class Lane> struct NativeVector;
template <> struct NativeVector<float> {
  using type [[gnu::vector_size(kVectorBytes)]] = float;
};
template <> struct NativeVector<double> {
  using type [[gnu::vector_size(kVectorBytes)]] = double;
};
template <> struct NativeVector<std::int8_t> {
  using type [[gnu::vector_size(kVectorBytes)]] = std::int8_t;
};
template <> struct NativeVector<std::int32_t> {
  using type [[gnu::vector_size(kVectorBytes)]] = std::int32_t;
};
template <> struct NativeVector<std::int64_t> {
  using type [[gnu::vector_size(kVectorBytes)]] = std::int64_t;
};

template <class Lane> using Native = typename NativeVector<Lane>::type;

/// A vector in memory, at any address and seen as any type.
template <class Lane> struct [[gnu::packed, gnu::may_alias]] NativeMemory {
  Native<Lane> vector;
};

template <class Lane> inline constexpr std::int64_t kNativeLanes = kVectorBytes / sizeof(Lane);

template <class Lane> TUTTI_ALWAYS_INLINE Native<Lane> native_load(const Lane* from) {
  return reinterpret_cast<const NativeMemory<Lane>*>(from)->vector;
}
template <class Lane> TUTTI_ALWAYS_INLINE void native_store(const Native<Lane>& vector, Lane* to) {
  reinterpret_cast<NativeMemory<Lane>*>(to)->vector = vector;
}

/// The places of the lanes of the `part`-th of several vectors: 0, 1, 2, ... for the first.
template <class Lane> TUTTI_ALWAYS_INLINE Native<Lane> native_indices(std::size_t part) {
  Native<Lane> indices{};
  for (std::int64_t i = 0; i < kNativeLanes<Lane>; ++i)
    indices[i] = static_cast<Lane>(static_cast<std::int64_t>(part) * kNativeLanes<Lane> + i);
  return indices;
}

#if defined(__AVX2__) && !defined(TUTTI_AVX512)
template <class Lane> TUTTI_ALWAYS_INLINE __m256i first_lanes(std::int64_t count) {
  const std::int64_t taken = std::clamp<std::int64_t>(count, 0, kNativeLanes<Lane>);
  if constexpr (sizeof(Lane) == 8)
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(taken), _mm256_setr_epi64x(0, 1, 2, 3));
  else
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(taken)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif

/// The first `count` lanes from memory, zeros behind them; nothing else is read. `count` >= 0 may be
/// beyond the last.
template <class Lane> TUTTI_ALWAYS_INLINE Native<Lane> native_load_first(const Lane* from, std::int64_t count) {
#if defined(TUTTI_AVX512)
  const std::int64_t taken = std::clamp<std::int64_t>(count, 0, kNativeLanes<Lane>);
  if constexpr (sizeof(Lane) == 8)
    return (Native<Lane>)_mm512_maskz_loadu_epi64(static_cast<__mmask8>((1U << taken) - 1U), from);
  else if constexpr (sizeof(Lane) == 4)
    return (Native<Lane>)_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1U << taken) - 1U), from);
#elif defined(__AVX2__)
  if constexpr (sizeof(Lane) == 8)
    return (Native<Lane>)_mm256_maskload_epi64(reinterpret_cast<const long long*>(from), first_lanes<Lane>(count));
  else if constexpr (sizeof(Lane) == 4)
    return (Native<Lane>)_mm256_maskload_epi32(reinterpret_cast<const int*>(from), first_lanes<Lane>(count));
#endif
  Native<Lane> vector{};
  if (count > 0)
    std::memcpy(&vector, from, static_cast<std::size_t>(std::min(count, kNativeLanes<Lane>)) * sizeof(Lane));
  return vector;
}

/// Writes the first `count` lanes, and nothing else.
template <class Lane>
TUTTI_ALWAYS_INLINE void native_store_first(const Native<Lane>& vector, Lane* to, std::int64_t count) {
#if defined(TUTTI_AVX512)
  const std::int64_t taken = std::clamp<std::int64_t>(count, 0, kNativeLanes<Lane>);
  if constexpr (sizeof(Lane) == 8)
    return _mm512_mask_storeu_epi64(to, static_cast<__mmask8>((1U << taken) - 1U), (__m512i)vector);
  else if constexpr (sizeof(Lane) == 4)
    return _mm512_mask_storeu_epi32(to, static_cast<__mmask16>((1U << taken) - 1U), (__m512i)vector);
#elif defined(__AVX2__)
  if constexpr (sizeof(Lane) == 8)
    return _mm256_maskstore_epi64(reinterpret_cast<long long*>(to), first_lanes<Lane>(count), (__m256i)vector);
  else if constexpr (sizeof(Lane) == 4)
    return _mm256_maskstore_epi32(reinterpret_cast<int*>(to), first_lanes<Lane>(count), (__m256i)vector);
#endif
  if (count > 0) std::memcpy(to, &vector, static_cast<std::size_t>(std::min(count, kNativeLanes<Lane>)) * sizeof(Lane));
}

/// Has a vector stay in a register: a compiler may otherwise load it again for each use.
template <class Vector> TUTTI_ALWAYS_INLINE void keep_in_register([[maybe_unused]] Vector& vector) {
#if defined(__SSE2__)
  asm("" : "+v"(vector));
#elif defined(__aarch64__)
  asm("" : "+w"(vector));
#endif
}

/// a * b + c, rounded once where the target can.
TUTTI_ALWAYS_INLINE Native<float> native_fma(Native<float> a, Native<float> b, Native<float> c) {
#if defined(__FMA__)
  return TUTTI_VECTOR_INTRINSIC(fmadd, ps)(a, b, c);
#elif defined(__aarch64__)
  return (Native<float>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}
TUTTI_ALWAYS_INLINE Native<double> native_fma(Native<double> a, Native<double> b, Native<double> c) {
#if defined(__FMA__)
  return TUTTI_VECTOR_INTRINSIC(fmadd, pd)(a, b, c);
#elif defined(__aarch64__)
  return (Native<double>)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
  return a * b + c;
#endif
}

TUTTI_ALWAYS_INLINE Native<float> native_sqrt(Native<float> x) {
#if defined(TUTTI_AVX512)
  return _mm512_mask_sqrt_ps(x, static_cast<__mmask16>(-1), x);  // GCC 12 warns of what the plain one leaves undefined
#elif defined(__SSE2__)
  return TUTTI_VECTOR_INTRINSIC(sqrt, ps)(x);
#elif defined(__aarch64__)
  return (Native<float>)vsqrtq_f32((float32x4_t)x);
#else
  for (std::size_t i = 0; i < kVectorBytes / sizeof(float); ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}
TUTTI_ALWAYS_INLINE Native<double> native_sqrt(Native<double> x) {
#if defined(TUTTI_AVX512)
  return _mm512_mask_sqrt_pd(x, static_cast<__mmask8>(-1), x);
#elif defined(__SSE2__)
  return TUTTI_VECTOR_INTRINSIC(sqrt, pd)(x);
#elif defined(__aarch64__)
  return (Native<double>)vsqrtq_f64((float64x2_t)x);
#else
  for (std::size_t i = 0; i < kVectorBytes / sizeof(double); ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}

#undef TUTTI_VECTOR_INTRINSIC

}  // namespace tutti
