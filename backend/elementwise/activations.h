// SPDX-License-Identifier: Apache-2.0
#pragma once

// Activation functions of neural networks.

#include <tutti/backend/elementwise/operation.h>

namespace tutti::elementwise {

/// max(x, 0); NaN stays NaN; the gradient at 0 is 0.
struct Relu {
  static constexpr auto name = "relu";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::output;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return select(x < scalar<X>(0), scalar<X>(0), x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& y, const X& dy) const {
    return select(y <= scalar<X>(0), scalar<X>(0), dy);
  }
};

/// x for x > 0, else slope * x. Maas et al., "Rectifier Nonlinearities" (2013).
struct LeakyRelu {
  static constexpr auto name = "leaky_relu";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  double slope = 0.01;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const {
    return select(x > scalar<X>(0), x, scalar<X>(slope) * x);
  }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    return select(x > scalar<X>(0), dy, scalar<X>(slope) * dy);
  }
};

/// x Phi(x), with Phi the normal distribution function. Hendrycks and Gimpel (2016), exact form.
struct Gelu {
  static constexpr auto name = "gelu";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X distribution(const X& x) const {
    return scalar<X>(0.5) * (scalar<X>(1) + erf(scalar<X>(0.70710678118654752) * x));
  }
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return x * distribution(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    const X density = scalar<X>(0.39894228040143268) * exp(scalar<X>(-0.5) * x * x);
    return dy * (distribution(x) + x * density);
  }
};

/// x sigmoid(x). Elfwing et al. (2017).
struct Silu {
  static constexpr auto name = "silu";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X logistic(const X& x) const { return scalar<X>(1) / (scalar<X>(1) + exp(-x)); }
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return x * logistic(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    const X s = logistic(x);
    return dy * s * (scalar<X>(1) + x * (scalar<X>(1) - s));
  }
};

}  // namespace tutti::elementwise
