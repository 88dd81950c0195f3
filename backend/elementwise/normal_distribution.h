// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/elementwise/operation.h>

namespace tutti::elementwise {

/// The standard normal distribution at a point. Packs have a function of their own (backend/cpu/packs/pack_math.h).
template <class X> struct NormalDistribution {
  X below;    ///< share below the point
  X density;  ///< density at the point
};

template <class X> TUTTI_HOST_DEVICE NormalDistribution<X> normal_distribution(const X& x) {
  return {scalar<X>(0.5) * (scalar<X>(1) + erf(scalar<X>(0.70710678118654752) * x)),
          scalar<X>(0.39894228040143268) * exp(scalar<X>(-0.5) * x * x)};
}

}  // namespace tutti::elementwise
