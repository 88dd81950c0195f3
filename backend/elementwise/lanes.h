// SPDX-License-Identifier: Apache-2.0
#pragma once

// Lanes<T>: 64 elements that a loop of a program computes with at once, the X of its elementwise structs on CPU devices
// (custom_formulas.h). Arithmetic is the compiler's, on vectors of 16 bytes, which all processors have; mathematics is
// the library's, with the vectors that the library was compiled for: so no layout depends on how a program is compiled.
// No lane knows of its neighbours.

#include <tutti/backend/elementwise/powers.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace tutti {

/// A vector of elements, at any address of theirs and seen as any type; bools are bytes that hold 0 or 1.
template <class T> struct LaneVector {
  using Lane = std::conditional_t<std::is_same_v<T, bool>, std::int8_t, T>;
  using type [[gnu::vector_size(16), gnu::aligned(alignof(T)), gnu::may_alias]] = Lane;
};
/// The integer as wide as an element, of which comparisons are made: all bits set or none.
template <class T> using LaneBits =
    std::conditional_t<sizeof(T) == 8, std::int64_t, std::conditional_t<sizeof(T) == 4, std::int32_t, std::int8_t>>;

/// Truth values of lanes, as comparisons give them.
template <class T> struct LanesMask {
  static constexpr std::size_t kParts = 4 * sizeof(T);
  typename LaneVector<LaneBits<T>>::type part[kParts];
};

/// Elements that are computed with at once, see above.
template <class T> struct Lanes {
  static constexpr std::int64_t kCount = 64;
  static constexpr std::size_t kParts = 4 * sizeof(T);
  typename LaneVector<T>::type part[kParts];

  Lanes() = default;
  template <class Number>
    requires std::is_arithmetic_v<Number>
  explicit Lanes(Number number) {
    const auto lane = static_cast<typename LaneVector<T>::Lane>(static_cast<T>(number));
    for (auto& each : part) each = lane - typename LaneVector<T>::type{};
  }
  /// The elements from there on as they lie in memory.
  static const Lanes& at(const T* elements) { return *reinterpret_cast<const Lanes*>(elements); }
  /// Writes them part by part. A loop would become an instruction for copies of any length, which is slow.
  void store(T* to) const {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      auto* const parts = reinterpret_cast<typename LaneVector<T>::type*>(to);
      if constexpr (std::is_same_v<T, bool>)
        ((parts[I] = (part[I] != 0) & 1), ...);  // sums of bools are bools
      else
        ((parts[I] = part[I]), ...);
    }(std::make_index_sequence<kParts>());
  }
};

#define TUTTI_LANES_OPERATOR(Result, Operand, sign)                                                                    \
  template <class T> [[gnu::always_inline]] inline Result<T> operator sign(const Operand<T>& a, const Operand<T>& b) { \
    Result<T> r;                                                                                                       \
    for (std::size_t i = 0; i < r.kParts; ++i) r.part[i] = a.part[i] sign b.part[i];                                   \
    return r;                                                                                                          \
  }
TUTTI_LANES_OPERATOR(Lanes, Lanes, +)
TUTTI_LANES_OPERATOR(Lanes, Lanes, -)
TUTTI_LANES_OPERATOR(Lanes, Lanes, *)
TUTTI_LANES_OPERATOR(Lanes, Lanes, /)
TUTTI_LANES_OPERATOR(Lanes, Lanes, &)
TUTTI_LANES_OPERATOR(Lanes, Lanes, |)
TUTTI_LANES_OPERATOR(Lanes, Lanes, ^)
TUTTI_LANES_OPERATOR(LanesMask, Lanes, <)
TUTTI_LANES_OPERATOR(LanesMask, Lanes, <=)
TUTTI_LANES_OPERATOR(LanesMask, Lanes, >)
TUTTI_LANES_OPERATOR(LanesMask, Lanes, >=)
TUTTI_LANES_OPERATOR(LanesMask, Lanes, ==)
TUTTI_LANES_OPERATOR(LanesMask, Lanes, !=)
TUTTI_LANES_OPERATOR(LanesMask, LanesMask, ==)
TUTTI_LANES_OPERATOR(LanesMask, LanesMask, !=)
TUTTI_LANES_OPERATOR(LanesMask, LanesMask, &)
TUTTI_LANES_OPERATOR(LanesMask, LanesMask, |)
#undef TUTTI_LANES_OPERATOR

template <class T> [[gnu::always_inline]] inline Lanes<T> operator-(const Lanes<T>& a) {
  Lanes<T> r;
  for (std::size_t i = 0; i < r.kParts; ++i) r.part[i] = -a.part[i];
  return r;
}
template <class T>
[[gnu::always_inline]] inline Lanes<T> select(const LanesMask<T>& mask, const Lanes<T>& a, const Lanes<T>& b) {
  Lanes<T> r;
  for (std::size_t i = 0; i < r.kParts; ++i) r.part[i] = mask.part[i] ? a.part[i] : b.part[i];
  return r;
}
template <class T> [[gnu::always_inline]] inline Lanes<T> abs(const Lanes<T>& a) {
  if constexpr (std::is_floating_point_v<T>) {
    Lanes<T> r;
    using Bits = typename LaneVector<LaneBits<T>>::type;
    for (std::size_t i = 0; i < r.kParts; ++i)
      r.part[i] = (typename LaneVector<T>::type)((Bits)a.part[i] & std::numeric_limits<LaneBits<T>>::max());
    return r;
  } else {
    return select(a < Lanes<T>(0), -a, a);
  }
}

// --- mathematics of one operand, in the library: Lanes::kCount elements to others
#define TUTTI_LANES_FUNCTIONS(apply)                                                                             \
  apply(sqrt) apply(exp) apply(expm1) apply(exp2) apply(log) apply(log1p) apply(log2) apply(log10) apply(sin)    \
      apply(cos) apply(tan) apply(asin) apply(acos) apply(atan) apply(sinh) apply(cosh) apply(tanh) apply(asinh) \
          apply(acosh) apply(atanh) apply(erf) apply(erfinv) apply(floor) apply(ceil) apply(nearbyint) apply(trunc)

#define TUTTI_LANES_FUNCTION(name)                                                                  \
  namespace lane_functions {                                                                        \
  void name(const float* from, float* to);                                                          \
  void name(const double* from, double* to);                                                        \
  }                                                                                                 \
  template <std::floating_point T> [[gnu::always_inline]] inline Lanes<T> name(const Lanes<T>& x) { \
    Lanes<T> r;                                                                                     \
    lane_functions::name(reinterpret_cast<const T*>(x.part), reinterpret_cast<T*>(r.part));         \
    return r;                                                                                       \
  }
TUTTI_LANES_FUNCTIONS(TUTTI_LANES_FUNCTION)
#undef TUTTI_LANES_FUNCTION

// --- mathematics of two, lane by lane
#define TUTTI_LANES_FUNCTION(name)                                                \
  template <class T> Lanes<T> name(const Lanes<T>& x, const Lanes<T>& y) {        \
    using namespace elementwise;                                                  \
    Lanes<T> r;                                                                   \
    const auto* const a = reinterpret_cast<const T*>(x.part);                     \
    const auto* const b = reinterpret_cast<const T*>(y.part);                     \
    auto* const to = reinterpret_cast<T*>(r.part);                                \
    for (std::int64_t i = 0; i < Lanes<T>::kCount; ++i) to[i] = name(a[i], b[i]); \
    return r;                                                                     \
  }
TUTTI_LANES_FUNCTION(pow)
TUTTI_LANES_FUNCTION(fmod)
TUTTI_LANES_FUNCTION(floor_divide)
TUTTI_LANES_FUNCTION(atan2)
#undef TUTTI_LANES_FUNCTION

}  // namespace tutti
