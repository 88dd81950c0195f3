// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/elementwise/operation.h>

namespace tutti::testing {

/// a + weight b, as a program writes it, which has kernels for CUDA in weighted_formula.cu.
struct WeightedFormula {
  static constexpr auto name = "weighted";
  static constexpr auto domain = elementwise::Domain::floating;
  static constexpr auto needs = elementwise::Needs::nothing;
  double weight = 1;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const {
    return a + elementwise::scalar<X>(weight) * b;
  }
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X& dy) const { return dy; }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& dy) const { return dy * elementwise::scalar<X>(weight); }
};

}  // namespace tutti::testing
