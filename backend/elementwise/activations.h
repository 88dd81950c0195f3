// SPDX-License-Identifier: Apache-2.0
#pragma once

// Activation functions of neural networks.

#include <tutti/backend/elementwise/normal_distribution.h>
#include <tutti/backend/elementwise/rounding.h>

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
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return x * normal_distribution(x).below; }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    const NormalDistribution<X> normal = normal_distribution(x);
    return dy * (normal.below + x * normal.density);
  }
};

/// GELU with tanh in place of erf: x (1 + tanh(u)) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). Same
/// paper.
struct GeluTanh {
  static constexpr auto name = "gelu_tanh";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  static constexpr double kScale = 2 * 0.79788456080286536;
  static constexpr double kCubic = 0.044715;
  static constexpr double kFar = 64;  ///< the distribution is 0 or 1 there, in f64 too
  template <class X> TUTTI_HOST_DEVICE X distribution(const X& x) const {
    return sigmoid(scalar<X>(kScale) * x * (scalar<X>(1) + scalar<X>(kCubic) * x * x));
  }
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return x * distribution(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    const X near = Clip{-kFar, kFar}.value(x);  // keeps the slope finite where it is multiplied by 0
    const X s = distribution(near);
    const X slope = scalar<X>(kScale) * (scalar<X>(1) + scalar<X>(3 * kCubic) * near * near);
    return dy * (s + near * (s * (scalar<X>(1) - s)) * slope);
  }
};

/// x sigmoid(x). Elfwing et al. (2017).
struct Silu {
  static constexpr auto name = "silu";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return x * sigmoid(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    const X s = sigmoid(x);
    return dy * s * (scalar<X>(1) + x * (scalar<X>(1) - s));
  }
};

/// x for x > 0, else alpha (exp(rate x) - 1). Clevert et al. (2015); with rate = 1 / alpha CELU, Barron (2017).
struct Elu {
  static constexpr auto name = "elu";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  double alpha = 1.0;
  double rate = 1.0;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const {
    return select(x > scalar<X>(0), x, scalar<X>(alpha) * expm1(scalar<X>(rate) * x));
  }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    const X below = select(x > scalar<X>(0), scalar<X>(0), x);
    return select(x > scalar<X>(0), dy, scalar<X>(alpha * rate) * exp(scalar<X>(rate) * below) * dy);
  }
};

/// log(1 + exp(beta x)) / beta, without overflow.
struct Softplus {
  static constexpr auto name = "softplus";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  double beta = 1.0;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const {
    const X z = scalar<X>(beta) * x;
    return select(z > scalar<X>(0), x, scalar<X>(0)) + log1p(exp(-abs(z))) * scalar<X>(1 / beta);
  }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    return dy * sigmoid(scalar<X>(beta) * x);
  }
};

/// x between `low` and `high`, else the one it is beyond, which has the gradient 0; so have the bounds themselves.
struct HardTanh {
  static constexpr auto name = "hard_tanh";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  double low = -1.0;
  double high = 1.0;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return Clip{low, high}.value(x); }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    return select(x > scalar<X>(low), select(x < scalar<X>(high), dy, scalar<X>(0)), scalar<X>(0));
  }
};

/// x min(max(x + 3, 0), 6) / 6. Howard et al., "Searching for MobileNetV3" (2019).
struct HardSwish {
  static constexpr auto name = "hard_swish";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const {
    const X between = x * (x + scalar<X>(3)) / scalar<X>(6);
    return select(x < scalar<X>(-3), scalar<X>(0), select(x > scalar<X>(3), x, between));
  }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    const X between = dy * (x / scalar<X>(3) + scalar<X>(0.5));
    return select(x <= scalar<X>(-3), scalar<X>(0), select(x >= scalar<X>(3), dy, between));
  }
};

}  // namespace tutti::elementwise
