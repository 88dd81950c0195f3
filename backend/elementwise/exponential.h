// SPDX-License-Identifier: Apache-2.0
#pragma once

// Exponentials, logarithms and their relatives.

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

/// 1 / (1 + exp(-x)).
struct Sigmoid {
  static constexpr auto name = "sigmoid";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::output;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return scalar<X>(1) / (scalar<X>(1) + exp(-x)); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& y, const X& dy) const { return dy * y * (scalar<X>(1) - y); }
};

}  // namespace tutti::elementwise
