// SPDX-License-Identifier: Apache-2.0
#pragma once

// The activation functions of autodiff as modules, for Sequential. Formulas: backend/elementwise/activations.h.

#include <tutti/autodiff/elementwise_operations.h>
#include <tutti/nn/module.h>

namespace tutti {

template <Tensor (*function)(const Tensor&)> class Activation : public Module {
 public:
  Tensor forward(const Tensor& x) const { return function(x); }
  void visit(MemberVisitor&) override {}
};

using ReLU = Activation<&relu>;
using GELU = Activation<&gelu>;
using SiLU = Activation<&silu>;
using Tanh = Activation<&tanh>;
using Sigmoid = Activation<&sigmoid>;

class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double slope = 0.01) : slope_(slope) {}

  Tensor forward(const Tensor& x) const { return leaky_relu(x, slope_); }
  void visit(MemberVisitor&) override {}
  double slope() const noexcept { return slope_; }

 private:
  double slope_;
};

}  // namespace tutti
