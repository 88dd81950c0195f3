// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/nn/module.h>
#include <tutti/tests/test_devices.h>

#include <vector>

namespace tutti::testing {

/// Two parameters of two elements that a test puts into a graph or leaves out. grad of `use(p, x)` with respect to p is
/// x for every element.
struct TwoBranches : Module {
  Tensor left{Array::from(std::vector<double>{1, 2}, {2}, test_device()), true};
  Tensor right{Array::from(std::vector<double>{3, 4}, {2}, test_device()), true};
  void visit(MemberVisitor& v) override {
    v.parameter("left", left);
    v.parameter("right", right);
  }
};

inline Tensor use(const Tensor& parameter, double factor) { return sum(parameter * factor); }

inline std::vector<double> gradient_of(const Tensor& parameter) {
  const Tensor gradient = parameter.grad();
  return gradient.defined() ? gradient.to_vector<double>() : std::vector<double>{};
}

using Values = std::vector<double>;

}  // namespace tutti::testing
