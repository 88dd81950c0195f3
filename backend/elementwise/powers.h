// SPDX-License-Identifier: Apache-2.0
#pragma once

// Powers, and what is left by division.

#include <tutti/backend/elementwise/operation.h>

namespace tutti::elementwise {

// Integers wrap, have no fractions and divide by zero without a trap.
template <std::integral T> TUTTI_HOST_DEVICE T fmod(T a, T b) { return b == T(0) || b == T(-1) ? T(0) : T(a % b); }
template <std::integral T> TUTTI_HOST_DEVICE T floor_divide(T a, T b) {
  if (b == T(0)) return T(0);
  if (b == T(-1)) return T(-a);  // the lowest integer / -1 traps
  return T(a / b - (a % b != T(0) && (a < T(0)) != (b < T(0)) ? T(1) : T(0)));
}
template <std::integral T> TUTTI_HOST_DEVICE T pow(T base, T exponent) {
  if (exponent < T(0)) {
    if (base == T(-1)) return exponent % T(2) == T(0) ? T(1) : T(-1);
    return base == T(1) ? T(1) : T(0);
  }
  T result(1);
  for (; exponent > T(0); exponent /= T(2)) {
    if (exponent % T(2) != T(0)) result *= base;
    base *= base;
  }
  return result;
}

// Uses the remainder of fmod, not a / b, which may be rounded to the next whole number: 1 // 0.1 is 9, as in Python.
template <std::floating_point T> TUTTI_HOST_DEVICE T floor_divide(T a, T b) {
  if (b == T(0)) return a / b;
  const T left = fmod(a, b);
  const T quotient = (a - left) / b;  // whole, but for rounding
  const T rounded = left != T(0) && (left < T(0)) != (b < T(0)) ? quotient - T(1) : quotient;
  const T floored = floor(rounded) + (rounded - floor(rounded) > T(0.5) ? T(1) : T(0));
  return floored == T(0) ? T(0) * (a / b) : floored;  // a zero has the quotient's sign
}

/// 1 / sqrt(x).
struct Rsqrt {
  static constexpr auto name = "rsqrt";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::output;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return scalar<X>(1) / sqrt(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& y, const X& dy) const {
    return scalar<X>(-0.5) * dy * y * y * y;
  }
};

/// a^b; special values as in C. Integers wrap, and give 0 for 1 / a^n unless |a| = 1. Gradients as in PyTorch: that of
/// the base is 0 for b = 0, that of the exponent is 0 for a = 0 <= b and NaN for a < 0.
struct Pow {
  static constexpr auto name = "pow";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const { return pow(a, b); }
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X& a, const X& b, const X& dy) const {
    const X exponent = select(b == scalar<X>(0), scalar<X>(1), b);
    return select(b == scalar<X>(0), scalar<X>(0), dy * (b * pow(a, exponent - scalar<X>(1))));
  }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& a, const X& b, const X& dy) const {
    const X base = select(b < scalar<X>(0), a, select(a == scalar<X>(0), scalar<X>(1), a));
    return dy * pow(a, b) * log(base);
  }
};

/// floor(a / b), as Python's //. Of integers, x / 0 is 0.
struct FloorDivide {
  static constexpr auto name = "floor_divide";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::zero;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const { return floor_divide(a, b); }
};

/// a - b trunc(a / b): the sign is a's, as of C's fmod and %. Of integers, x fmod 0 is 0.
struct Fmod {
  static constexpr auto name = "fmod";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const { return fmod(a, b); }
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X&, const X&, const X& dy) const { return dy; }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& a, const X& b, const X& dy) const {
    // Uses floor_divide, exact where a / b is rounded to the next whole number.
    return -(dy * select((a < scalar<X>(0)) == (b < scalar<X>(0)), floor_divide(a, b), -floor_divide(-a, b)));
  }
};

/// a - b floor(a / b): the sign is b's, as of Python's %. Of integers, x % 0 is 0.
struct Remainder {
  static constexpr auto name = "remainder";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const {
    const X left = fmod(a, b);
    const X zero(0);
    return select(left == zero, left, select((left < zero) == (b < zero), left, left + b));
  }
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X&, const X&, const X& dy) const { return dy; }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& a, const X& b, const X& dy) const {
    return -(dy * floor_divide(a, b));
  }
};

}  // namespace tutti::elementwise
