// SPDX-License-Identifier: Apache-2.0
#pragma once

// The widest vectors that the target has, as the compiler's own vector types: operators, comparisons and selection are
// the language's, for every element type. Only the two instructions without an operator are named here.

#include <cmath>
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
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

/// a * b + c, rounded once where the target can.
TUTTI_ALWAYS_INLINE Native<float> native_fma(Native<float> a, Native<float> b, Native<float> c) {
#if defined(__FMA__)
  return TUTTI_VECTOR_INTRINSIC(fmadd, ps)(a, b, c);
#else
  return a * b + c;
#endif
}
TUTTI_ALWAYS_INLINE Native<double> native_fma(Native<double> a, Native<double> b, Native<double> c) {
#if defined(__FMA__)
  return TUTTI_VECTOR_INTRINSIC(fmadd, pd)(a, b, c);
#else
  return a * b + c;
#endif
}

TUTTI_ALWAYS_INLINE Native<float> native_sqrt(Native<float> x) {
#if defined(TUTTI_AVX512)
  return _mm512_mask_sqrt_ps(x, static_cast<__mmask16>(-1), x);  // GCC 12 warns of what the plain one leaves undefined
#elif defined(__SSE2__)
  return TUTTI_VECTOR_INTRINSIC(sqrt, ps)(x);
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
#else
  for (std::size_t i = 0; i < kVectorBytes / sizeof(double); ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}

#undef TUTTI_VECTOR_INTRINSIC
#undef TUTTI_AVX512

}  // namespace tutti
