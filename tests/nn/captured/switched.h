// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>
#include <tutti/nn/layer.h>
#include <tutti/nn/linear.h>
#include <tutti/tests/test_devices.h>

namespace tutti::testing {

/// Random values on the device that is tested.
inline Tensor drawn(Generator& random, const Shape& shape) {
  return Tensor(random.normal(shape, DType::f32, test_device()));
}

/// A layer that does something else where a test switches it.
struct Switched : Layer {
  explicit Switched(Generator& random) : linear(3, 2, random) {}
  Tensor compute(const Tensor& x) const override {
    const Tensor y = linear(x);
    if (reads && y.sum().item<float>() == 17) return x;
    if (keeps) kept = y * 2;
    return squares ? square(y) : y;
  }
  void visit(MemberVisitor& v) override { v.module("linear", linear); }
  Linear linear;
  bool squares = false;
  bool reads = false;
  bool keeps = false;
  mutable Tensor kept;
};

}  // namespace tutti::testing
