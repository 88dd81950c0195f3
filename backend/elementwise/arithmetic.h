// SPDX-License-Identifier: Apache-2.0
#pragma once

// Arithmetic of one and two operands. Integers wrap. All formulas are the textbook ones, but for their order.

#include <tutti/backend/elementwise/operation.h>

namespace tutti::elementwise {

struct Negate {
  static constexpr auto name = "negate";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::nothing;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return -x; }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& dy) const { return -dy; }
};

/// The gradient at 0 is 0.
struct Abs {
  static constexpr auto name = "abs";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return abs(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    return select(x > scalar<X>(0), dy, select(x < scalar<X>(0), -dy, scalar<X>(0)));
  }
};

struct Square {
  static constexpr auto name = "square";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return x * x; }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const { return scalar<X>(2) * (x * dy); }
};

struct Sqrt {
  static constexpr auto name = "sqrt";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::output;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return sqrt(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& y, const X& dy) const { return scalar<X>(0.5) * dy / y; }
};

struct Add {
  static constexpr auto name = "add";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::nothing;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const { return a + b; }
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X& dy) const { return dy; }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& dy) const { return dy; }
};

struct Subtract {
  static constexpr auto name = "subtract";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::nothing;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const { return a - b; }
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X& dy) const { return dy; }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& dy) const { return -dy; }
};

struct Multiply {
  static constexpr auto name = "multiply";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const { return a * b; }
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X&, const X& b, const X& dy) const { return dy * b; }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& a, const X&, const X& dy) const { return dy * a; }
};

/// True division: integers are promoted to floating point first.
struct Divide {
  static constexpr auto name = "divide";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const { return a / b; }
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X&, const X& b, const X& dy) const { return dy / b; }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& a, const X& b, const X& dy) const {
    return -(dy * (a / b)) / b;
  }
};

/// NaN wins, on both sides; equal operands share the gradient.
struct Maximum {
  static constexpr auto name = "maximum";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const {
    return select(a != a, a, select(a > b, a, b));
  }
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X& a, const X& b, const X& dy) const {
    return select(a < b, scalar<X>(0), select(a == b, scalar<X>(0.5) * dy, dy));
  }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& a, const X& b, const X& dy) const {
    return gradient_lhs(b, a, dy);
  }
};

/// NaN wins, on both sides; equal operands share the gradient.
struct Minimum {
  static constexpr auto name = "minimum";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const {
    return select(a != a, a, select(a < b, a, b));
  }
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X& a, const X& b, const X& dy) const {
    return select(a > b, scalar<X>(0), select(a == b, scalar<X>(0.5) * dy, dy));
  }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& a, const X& b, const X& dy) const {
    return gradient_lhs(b, a, dy);
  }
};

}  // namespace tutti::elementwise
