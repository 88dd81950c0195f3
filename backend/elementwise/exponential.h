// SPDX-License-Identifier: Apache-2.0
#pragma once

// Exponentials, logarithms and their relatives.

#include <tutti/backend/elementwise/inverse_error_function.h>
#include <tutti/backend/elementwise/operation.h>

namespace tutti::elementwise {

struct Exp {
  static constexpr auto name = "exp";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::output;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return exp(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& y, const X& dy) const { return dy * y; }
};

struct Log {
  static constexpr auto name = "log";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return log(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const { return dy / x; }
};

/// log(1 + x), accurate near 0.
struct Log1p {
  static constexpr auto name = "log1p";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return log1p(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const { return dy / (scalar<X>(1) + x); }
};

/// 2^x.
struct Exp2 {
  static constexpr auto name = "exp2";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::output;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return exp2(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& y, const X& dy) const {
    return scalar<X>(0.69314718055994531) * dy * y;
  }
};

/// exp(x) - 1, accurate near 0.
struct Expm1 {
  static constexpr auto name = "expm1";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::output;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return expm1(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& y, const X& dy) const { return dy * (y + scalar<X>(1)); }
};

struct Log2 {
  static constexpr auto name = "log2";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return log2(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    return scalar<X>(1.4426950408889634) * (dy / x);
  }
};

struct Log10 {
  static constexpr auto name = "log10";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return log10(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    return scalar<X>(0.43429448190325183) * (dy / x);
  }
};

/// log(exp(a) + exp(b)) without overflow; two equal infinities give themselves.
struct LogAddExp {
  static constexpr auto name = "logaddexp";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const {
    const X sum = select(a > b, a, b) + log1p(exp(-abs(a - b)));
    return select(a == b, a + scalar<X>(0.69314718055994531), sum);
  }
  /// Equal infinities share it.
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X& a, const X& b, const X& dy) const {
    const X difference = a - b;
    const X infinite = select(a == b, scalar<X>(0), difference);
    return dy * sigmoid(select(difference == difference, difference, infinite));
  }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& a, const X& b, const X& dy) const {
    return gradient_lhs(b, a, dy);
  }
};

struct Tanh {
  static constexpr auto name = "tanh";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::output;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return tanh(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& y, const X& dy) const { return dy * (scalar<X>(1) - y * y); }
};

/// d/dx erf(x) = 2 / sqrt(pi) exp(-x^2).
struct Erf {
  static constexpr auto name = "erf";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return erf(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    return scalar<X>(1.1283791670955126) * exp(-(x * x)) * dy;
  }
};

/// The inverse of erf on (-1, 1): dx = sqrt(pi) / 2 exp(y^2) dy.
struct Erfinv {
  static constexpr auto name = "erfinv";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::output;
  static constexpr bool composed_gradient = true;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return erfinv(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& y, const X& dy) const {
    return scalar<X>(0.88622692545275801) * exp(y * y) * dy;
  }
};

/// 1 / (1 + exp(-x)).
struct Sigmoid {
  static constexpr auto name = "sigmoid";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::output;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return sigmoid(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& y, const X& dy) const { return dy * y * (scalar<X>(1) - y); }
};

}  // namespace tutti::elementwise
