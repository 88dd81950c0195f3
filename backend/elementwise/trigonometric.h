// SPDX-License-Identifier: Apache-2.0
#pragma once

// Trigonometric and hyperbolic functions and their inverses; angles in radians.

#include <tutti/backend/elementwise/operation.h>

namespace tutti::elementwise {

struct Sin {
  static constexpr auto name = "sin";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return sin(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const { return dy * cos(x); }
};

struct Cos {
  static constexpr auto name = "cos";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return cos(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const { return -(dy * sin(x)); }
};

struct Tan {
  static constexpr auto name = "tan";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::output;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return tan(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& y, const X& dy) const { return dy * (scalar<X>(1) + y * y); }
};

struct Asin {
  static constexpr auto name = "asin";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return asin(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    return dy / sqrt((scalar<X>(1) - x) * (scalar<X>(1) + x));
  }
};

struct Acos {
  static constexpr auto name = "acos";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return acos(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    return -dy / sqrt((scalar<X>(1) - x) * (scalar<X>(1) + x));
  }
};

struct Atan {
  static constexpr auto name = "atan";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return atan(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    const auto is_far = abs(x) > scalar<X>(1);
    const X near = select(is_far, scalar<X>(1) / select(is_far, x, scalar<X>(1)), x);  // 1 / x beyond 1
    return dy * select(is_far, near * near, scalar<X>(1)) / (scalar<X>(1) + near * near);
  }
};

/// The angle of the point (b, a). The gradient at the origin is 0.
struct Atan2 {
  static constexpr auto name = "atan2";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const { return atan2(a, b); }
  /// part / (a^2 + b^2), whose squares may be beyond the type's range; 0 at the origin.
  template <class X> TUTTI_HOST_DEVICE X over_distance_squared(const X& part, const X& a, const X& b) const {
    const auto a_is_larger = abs(a) > abs(b);
    const X larger = select(a_is_larger, a, b);
    const X scale = select(larger == scalar<X>(0), scalar<X>(1), larger);
    const X ratio = select(a_is_larger, b, a) / scale;
    return part / scale / (scalar<X>(1) + ratio * ratio) / scale;
  }
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X& a, const X& b, const X& dy) const {
    return dy * over_distance_squared(b, a, b);
  }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& a, const X& b, const X& dy) const {
    return -(dy * over_distance_squared(a, a, b));
  }
};

struct Sinh {
  static constexpr auto name = "sinh";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return sinh(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const { return dy * cosh(x); }
};

struct Cosh {
  static constexpr auto name = "cosh";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return cosh(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const { return dy * sinh(x); }
};

struct Asinh {
  static constexpr auto name = "asinh";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return asinh(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    const auto is_far = abs(x) > scalar<X>(1);
    const X near = select(is_far, scalar<X>(1) / select(is_far, x, scalar<X>(1)), x);  // 1 / x beyond 1
    return dy * select(is_far, abs(near), scalar<X>(1)) / sqrt(scalar<X>(1) + near * near);
  }
};

struct Acosh {
  static constexpr auto name = "acosh";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return acosh(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    return dy / (sqrt(x - scalar<X>(1)) * sqrt(x + scalar<X>(1)));
  }
};

struct Atanh {
  static constexpr auto name = "atanh";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return atanh(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    return dy / ((scalar<X>(1) - x) * (scalar<X>(1) + x));
  }
};

}  // namespace tutti::elementwise
