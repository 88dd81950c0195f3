// SPDX-License-Identifier: Apache-2.0
#pragma once

// The steps of kernel_arguments.h for one element, with X = a scalar (CUDA threads) or a pack of them (CPU loops).

#include <tutti/backend/elementwise/operation.h>
#include <tutti/backend/kernel_arguments.h>

#include <cmath>

namespace tutti {

template <class X> struct SgdFormula {
  X rate;
  X momentum;
  X fresh;
  X decay;
  X scale;
  bool nesterov;
  bool first;

  explicit SgdFormula(const SgdStep& step)
      : rate(step.rate),
        momentum(step.momentum),
        fresh(1.0 - step.dampening),
        decay(step.weight_decay),
        scale(step.gradient_scale),
        nesterov(step.nesterov),
        first(step.first) {}

  TUTTI_HOST_DEVICE X plain(const X& parameter, const X& gradient) const {
    return parameter - rate * (scale * gradient + decay * parameter);
  }
  /// On the first step `velocity` is not read.
  TUTTI_HOST_DEVICE X with_momentum(const X& parameter, const X& raw_gradient, X& velocity) const {
    const X gradient = scale * raw_gradient + decay * parameter;
    velocity = first ? gradient : momentum * velocity + fresh * gradient;
    return parameter - rate * (nesterov ? gradient + momentum * velocity : velocity);
  }
};

template <class X> struct AdamWFormula {
  X rate;
  X epsilon;
  X keep;
  X scale;
  X beta1;
  X beta2;
  X rest1;
  X rest2;

  /// rate * (m / c1) / (sqrt(v / c2) + eps) = rate * sqrt(c2) / c1 * m / (sqrt(v) + eps sqrt(c2))
  explicit AdamWFormula(const AdamWStep& step) : AdamWFormula(step, square_correction(step)) {}

  TUTTI_HOST_DEVICE X operator()(const X& parameter, const X& raw_gradient, X& mean, X& square) const {
    using std::sqrt;
    const X gradient = scale * raw_gradient;
    mean = beta1 * mean + rest1 * gradient;
    square = beta2 * square + rest2 * gradient * gradient;
    return keep * parameter - rate * mean / (sqrt(square) + epsilon);
  }

 private:
  static double square_correction(const AdamWStep& step) {
    return std::sqrt(1.0 - std::pow(step.beta2, static_cast<double>(step.step)));
  }
  AdamWFormula(const AdamWStep& step, double correction)
      : rate(step.rate * correction / (1.0 - std::pow(step.beta1, static_cast<double>(step.step)))),
        epsilon(step.epsilon * correction),
        keep(1.0 - step.rate * step.weight_decay),
        scale(step.gradient_scale),
        beta1(step.beta1),
        beta2(step.beta2),
        rest1(1.0 - step.beta1),
        rest2(1.0 - step.beta2) {}
};

}  // namespace tutti
