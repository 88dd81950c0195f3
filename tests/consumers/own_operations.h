// SPDX-License-Identifier: Apache-2.0
// What extension.cpp and extension.cu both see: an elementwise operation of theirs, and kernels on CUDA devices.
#pragma once

#include <tutti/backend/custom_kernel.h>
#include <tutti/backend/elementwise/operation.h>

/// x / sqrt(1 + curve x²)
struct Squash {
  static constexpr auto name = "squash";
  static constexpr auto domain = tutti::elementwise::Domain::floating;
  static constexpr auto needs = tutti::elementwise::Needs::inputs;
  double curve = 1.0;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const {
    using namespace tutti::elementwise;
    return x / sqrt(scalar<X>(1) + scalar<X>(curve) * x * x);
  }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    using namespace tutti::elementwise;
    const X root = sqrt(scalar<X>(1) + scalar<X>(curve) * x * x);
    return dy / (root * root * root);
  }
};

/// (a - b)²
struct SquaredDistance {
  static constexpr auto name = "squared_distance";
  static constexpr auto domain = tutti::elementwise::Domain::floating;
  static constexpr auto needs = tutti::elementwise::Needs::inputs;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const { return (a - b) * (a - b); }
  template <class X> TUTTI_HOST_DEVICE X gradient_lhs(const X& a, const X& b, const X& dy) const {
    return dy * tutti::elementwise::scalar<X>(2) * (a - b);
  }
  template <class X> TUTTI_HOST_DEVICE X gradient_rhs(const X& a, const X& b, const X& dy) const {
    return dy * tutti::elementwise::scalar<X>(2) * (b - a);
  }
};

/// Contiguous f32 times a parameter, on a stream of CUDA's.
void times_on_cuda(const tutti::CustomCall&, void* stream);
