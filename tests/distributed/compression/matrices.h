// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/random.h>
#include <tutti/nn/module.h>
#include <tutti/tests/test_devices.h>

#include <vector>

namespace tutti::testing {

using Floats = std::vector<float>;

/// Parameters of f32 of different ranks, whose gradients a test sets: those of low rank, and a vector.
struct Matrices : Module {
  Tensor wide{Array::zeros({12, 20}, DType::f32, test_device()), true};
  Tensor kernel{Array::zeros({16, 2, 3, 3}, DType::f32, test_device()), true};
  Tensor bias{Array::zeros({7}, DType::f32, test_device()), true};
  void visit(MemberVisitor& v) override {
    v.parameter("wide", wide);
    v.parameter("kernel", kernel);
    v.parameter("bias", bias);
  }
};

inline Floats random_floats(std::int64_t count, std::uint64_t seed, std::uint64_t stream) {
  return Generator(seed, stream).normal({count}, DType::f32, test_device()).to_vector<float>();
}

/// A loss whose gradient with respect to the parameter is that.
inline Tensor with_gradient(const Tensor& parameter, const Floats& gradient) {
  return sum(parameter * Tensor(Array::from(gradient, parameter.shape(), parameter.device())));
}

inline Floats floats_of(const Tensor& tensor) { return tensor.to_vector<float>(); }

}  // namespace tutti::testing
