// SPDX-License-Identifier: Apache-2.0
#pragma once

// The activation functions of autodiff as modules, for Sequential: x of any shape -> the same shape. Formulas,
// gradients and sources: autodiff/elementwise_operations.h.

#include <tutti/autodiff/elementwise_operations.h>
#include <tutti/nn/module.h>

namespace tutti {

/// A function of one tensor as a module without members.
template <Tensor (*function)(const Tensor&)> class Activation : public Module {
 public:
  Tensor forward(const Tensor& x) const { return function(x); }
  void visit(MemberVisitor&) override {}
};

using ReLU = Activation<&relu>;        ///< max(x, 0)
using GELU = Activation<&gelu>;        ///< x Phi(x), exactly: not its approximation with tanh
using SiLU = Activation<&silu>;        ///< x sigmoid(x)
using Tanh = Activation<&tanh>;        ///< the hyperbolic tangent
using Sigmoid = Activation<&sigmoid>;  ///< 1 / (1 + exp(-x))

/// leaky_relu: x > 0 ? x : slope x.
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
