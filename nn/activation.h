// SPDX-License-Identifier: Apache-2.0
#pragma once

// Activation functions as modules, for Sequential: x of any shape -> the same shape, but GLU's. Names and defaults are
// PyTorch's; formulas, gradients and sources of the functions stand in autodiff/operations/elementwise_operations.h.

#include <tutti/autodiff/operations.h>
#include <tutti/nn/layer.h>

#include <cstdint>
#include <tuple>

namespace tutti {

/// The first half of an axis times the sigmoid of the second: a sigmoid(b). Dauphin et al., "Language Modeling with
/// Gated Convolutional Networks" (2017). ShapeError for an axis of odd length.
Tensor glu(const Tensor& x, std::int64_t axis = -1);
Tensor tanhshrink(const Tensor& x);                       ///< x - tanh(x)
Tensor softmin(const Tensor& x, std::int64_t axis = -1);  ///< softmax(-x)

/// Modules without members that keep the numbers which their function takes beside the tensor.
template <class... Numbers> struct ActivationWith {
  template <Tensor (*function)(const Tensor&, Numbers...)> class Of : public Layer {
   public:
    explicit Of(Numbers... numbers) : numbers_(numbers...) {}

    Tensor compute(const Tensor& x) const override {
      return std::apply([&](Numbers... numbers) { return function(x, numbers...); }, numbers_);
    }
    void visit(MemberVisitor&) override {}
    /// Numbers that were given to the constructor.
    const std::tuple<Numbers...>& numbers() const noexcept { return numbers_; }

   private:
    std::tuple<Numbers...> numbers_;
  };
};

/// A function of one tensor as a module.
template <Tensor (*function)(const Tensor&)> using Activation = ActivationWith<>::Of<function>;
/// A function of a tensor and a number as a module.
template <Tensor (*function)(const Tensor&, double)> using ActivationBy = ActivationWith<double>::Of<function>;
/// A function along an axis as a module.
template <Tensor (*function)(const Tensor&, std::int64_t)> using ActivationAlong =
    ActivationWith<std::int64_t>::Of<function>;

struct ReLU : Activation<&relu> {};
struct ReLU6 : Activation<&relu6> {};
struct GELU : Activation<&gelu> {};           ///< x Phi(x), exactly
struct GELUTanh : Activation<&gelu_tanh> {};  ///< its approximation with tanh: PyTorch's GELU(approximate="tanh")
struct SELU : Activation<&selu> {};
struct SiLU : Activation<&silu> {};
struct Mish : Activation<&mish> {};
struct Softsign : Activation<&softsign> {};
struct Tanh : Activation<&tanh> {};
struct Tanhshrink : Activation<&tanhshrink> {};
struct Sigmoid : Activation<&sigmoid> {};
struct LogSigmoid : Activation<&log_sigmoid> {};
struct Hardsigmoid : Activation<&hard_sigmoid> {};
struct Hardswish : Activation<&hard_swish> {};

struct LeakyReLU : ActivationBy<&leaky_relu> {
  explicit LeakyReLU(double slope = 0.01) : Of(slope) {}
  double slope() const noexcept { return std::get<0>(numbers()); }
};
struct ELU : ActivationBy<&elu> {
  explicit ELU(double alpha = 1.0) : Of(alpha) {}
};
struct CELU : ActivationBy<&celu> {
  explicit CELU(double alpha = 1.0) : Of(alpha) {}
};
struct Softplus : ActivationBy<&softplus> {
  explicit Softplus(double beta = 1.0) : Of(beta) {}
};
struct Hardshrink : ActivationBy<&hard_shrink> {
  explicit Hardshrink(double edge = 0.5) : Of(edge) {}
};
struct Softshrink : ActivationBy<&soft_shrink> {
  explicit Softshrink(double edge = 0.5) : Of(edge) {}
};
struct Hardtanh : ActivationWith<double, double>::Of<&hard_tanh> {
  explicit Hardtanh(double low = -1.0, double high = 1.0) : Of(low, high) {}
};
struct Threshold : ActivationWith<double, double>::Of<&threshold> {
  Threshold(double edge, double value) : Of(edge, value) {}
};

struct Softmax : ActivationAlong<&softmax> {
  explicit Softmax(std::int64_t axis = -1) : Of(axis) {}
};
struct Softmin : ActivationAlong<&softmin> {
  explicit Softmin(std::int64_t axis = -1) : Of(axis) {}
};
struct LogSoftmax : ActivationAlong<&log_softmax> {
  explicit LogSoftmax(std::int64_t axis = -1) : Of(axis) {}
};
struct GLU : ActivationAlong<&glu> {
  explicit GLU(std::int64_t axis = -1) : Of(axis) {}
};

struct PReLUOptions {
  double slope = 0.25;  ///< initial slope
  DType dtype = DType::f32;
  Device device = cpu(0);
};

/// prelu with a slope that is learned: one for all elements, or one for each channel, which are axis 1 of x, [n,
/// channels, ...]. No weight decay belongs on it.
class PReLU : public Layer {
 public:
  /// ShapeError unless the number is positive, DTypeError unless the type is floating.
  explicit PReLU(std::int64_t channels = 1, const PReLUOptions& = {});

  Tensor compute(const Tensor& x) const override;  ///< ShapeError for x of other channels
  void visit(MemberVisitor&) override;

  Tensor weight;  ///< [channels]: the slopes
};

}  // namespace tutti
