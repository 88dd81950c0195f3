// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared by the generated tests of elementwise operations: which formulas an operation has, and numbers to feed them.

#include <tutti/backend/elementwise/lists.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

namespace tutti::samples {

using elementwise::Domain;
using elementwise::Needs;

template <class O> constexpr bool is_binary = requires(const O& operation, double x) { operation.value(x, x); };
template <class O> constexpr bool has_gradient = O::needs != Needs::no_gradient;
using elementwise::has_gradient_kernel;
template <class O> constexpr bool takes_floating = O::domain != Domain::bits;
template <class O> constexpr bool takes_integers = O::domain != Domain::floating;

/// dL/dx by the operation's own formula.
template <class O, class X> X gradient_of(const O& operation, const X& x, const X& dy) {
  if constexpr (O::needs == Needs::zero)
    return X(0);
  else if constexpr (O::needs == Needs::nothing)
    return operation.gradient(dy);
  else if constexpr (O::needs == Needs::inputs)
    return operation.gradient(x, dy);
  else
    return operation.gradient(operation.value(x), dy);
}
template <class O, class X> X gradient_lhs_of(const O& operation, const X& a, const X& b, const X& dy) {
  if constexpr (O::needs == Needs::zero)
    return X(0);
  else if constexpr (O::needs == Needs::nothing)
    return operation.gradient_lhs(dy);
  else
    return operation.gradient_lhs(a, b, dy);
}
template <class O, class X> X gradient_rhs_of(const O& operation, const X& a, const X& b, const X& dy) {
  if constexpr (O::needs == Needs::zero)
    return X(0);
  else if constexpr (O::needs == Needs::nothing)
    return operation.gradient_rhs(dy);
  else
    return operation.gradient_rhs(a, b, dy);
}

/// Away from 0 and from one another, where formulas have corners.
inline const std::vector<double> kSmooth = {-3.125, -1.375, -0.6875, -0.21875, 0.15625, 0.4375, 0.90625, 1.75, 2.625};

/// Finite floats of all sizes, in f32 exactly.
inline std::vector<float> finite_floats() {
  std::vector<float> all = {0.0F, -0.0F, 1.0F, -1.0F, 0.625F, 0.9F, 4.0F, 88.0F, -87.0F, 20.0F};
  for (int exponent = -30; exponent <= 12; ++exponent)
    for (const double mantissa : {1.0, 1.0625, 1.2345678, 1.41421356, 1.5, 1.7071068, 1.9999999})
      for (const int sign : {-1, 1}) all.push_back(static_cast<float>(sign * std::ldexp(mantissa, exponent)));
  return all;
}

template <class T> std::vector<T> special_floats() {
  using Limits = std::numeric_limits<T>;
  return {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), T(0), T(-0.0), T(1), T(-1), Limits::max()};
}

template <class T> std::vector<T> integers() {
  using Limits = std::numeric_limits<T>;
  return {Limits::lowest(), Limits::lowest() + 1, -7, -3, -2, -1, 0, 1, 2, 3, 7, 100, Limits::max() - 1, Limits::max()};
}

/// The spacing of f32 at `exact`.
inline double ulp_f32(double exact) {
  return std::ldexp(1.0, std::max(exact == 0.0 ? -126 : std::ilogb(exact), -126) - 23);
}

/// Scale that the error is measured against. GELU's formula adds nearly opposite numbers for x far below 0: its error
/// is that of x itself.
template <class O> double error_scale(double exact, double x) {
  constexpr bool kCancels = std::is_same_v<O, elementwise::Gelu> || std::is_same_v<O, elementwise::GeluTanh>;
  return kCancels ? std::max(std::abs(exact), std::abs(x)) : exact;
}

/// True for exact results that f32 can be asked for: finite and normal.
inline bool is_normal_f32(double exact) {
  return std::abs(exact) <= std::numeric_limits<float>::max() && std::abs(exact) >= std::numeric_limits<float>::min();
}

}  // namespace tutti::samples
