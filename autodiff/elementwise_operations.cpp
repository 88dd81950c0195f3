// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/elementwise_operations.h>

#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/promotion.h>
#include <tutti/backend/operations.h>

namespace tutti {

namespace {

using elementwise::Needs;
using Part = ElementwiseCall::Part;

// One unary gradient, from what the operation saved. Recorded gradients are composed of differentiable operations: the
// struct's own formula with X = Tensor. Others are one fused kernel.
template <class Operation, class... Saved>
Tensor gradient(const Operation& operation, const Tensor& dy, const Saved&... saved) {
  if (Operation::needs == Needs::nothing || grad_enabled()) return operation.gradient(saved..., dy);
  const Array inputs[] = {saved.array()..., dy.array()};
  return Tensor(apply_gradient(operation, Part::gradient, inputs));
}

template <class Operation> Tensor unary(const Operation& operation, const Tensor& input) {
  const Tensor x = promote_into(Operation::domain, Operation::name, input);
  const Tensor inputs[] = {x};
  Array value = apply(operation, x.array());
  if constexpr (Operation::needs == Needs::no_gradient) {
    return Tensor(std::move(value));
  } else {
    const Array y = Operation::needs == Needs::output ? value : Array();
    return record(Operation::name, std::move(value), inputs, [&] {
      SavedTensor saved;
      if constexpr (Operation::needs == Needs::inputs) saved = save(x, 0);
      if constexpr (Operation::needs == Needs::output) saved = {y, SavedTensor::kOutput};
      return [operation, saved](const auto& restore, const Tensor& dy, InputGradients& gradients) {
        if constexpr (Operation::needs == Needs::nothing)
          gradients.set(0, gradient(operation, dy));
        else
          gradients.set(0, gradient(operation, dy, restore(saved)));
      };
    });
  }
}

template <Part part, class Operation, class... Saved>
Tensor side_gradient(const Operation& operation, const Tensor& dy, const Saved&... saved) {
  if (Operation::needs == Needs::nothing || grad_enabled()) {
    if constexpr (part == Part::gradient_lhs)
      return operation.gradient_lhs(saved..., dy);
    else
      return operation.gradient_rhs(saved..., dy);
  }
  const Array inputs[] = {saved.array()..., dy.array()};
  return Tensor(apply_gradient(operation, part, inputs));
}

template <class Operation> Tensor binary(const Operation& operation, const Tensor& lhs, const Tensor& rhs) {
  const auto [a, b] = promote_pair(Operation::domain, Operation::name, lhs, rhs);
  const Tensor inputs[] = {a, b};
  Array value = apply(operation, a.array(), b.array());
  if constexpr (Operation::needs == Needs::no_gradient) {
    return Tensor(std::move(value));
  } else {
    return record(Operation::name, std::move(value), inputs, [&] {
      constexpr bool saves = Operation::needs == Needs::inputs;
      return [operation, saved_a = saves ? save(a, 0) : SavedTensor{}, saved_b = saves ? save(b, 1) : SavedTensor{},
              shape_a = a.shape(),
              shape_b = b.shape()](const auto& restore, const Tensor& dy, InputGradients& gradients) {
        const auto side = [&]<Part part>(std::integral_constant<Part, part>) {
          if constexpr (Operation::needs == Needs::nothing)
            return side_gradient<part>(operation, dy);
          else
            return side_gradient<part>(operation, dy, restore(saved_a), restore(saved_b));
        };
        if (gradients.wanted(0))
          gradients.set(
              0, sum_to(side(std::integral_constant<Part, Part::gradient_lhs>{}), shape_a, gradients.destination(0)));
        if (gradients.wanted(1))
          gradients.set(
              1, sum_to(side(std::integral_constant<Part, Part::gradient_rhs>{}), shape_b, gradients.destination(1)));
      };
    });
  }
}

}  // namespace

Tensor abs(const Tensor& x) { return unary(elementwise::Abs{}, x); }
Tensor square(const Tensor& x) { return unary(elementwise::Square{}, x); }
Tensor sqrt(const Tensor& x) { return unary(elementwise::Sqrt{}, x); }
Tensor exp(const Tensor& x) { return unary(elementwise::Exp{}, x); }
Tensor log(const Tensor& x) { return unary(elementwise::Log{}, x); }
Tensor log1p(const Tensor& x) { return unary(elementwise::Log1p{}, x); }
Tensor tanh(const Tensor& x) { return unary(elementwise::Tanh{}, x); }
Tensor erf(const Tensor& x) { return unary(elementwise::Erf{}, x); }
Tensor sigmoid(const Tensor& x) { return unary(elementwise::Sigmoid{}, x); }
Tensor relu(const Tensor& x) { return unary(elementwise::Relu{}, x); }
Tensor leaky_relu(const Tensor& x, double slope) { return unary(elementwise::LeakyRelu{slope}, x); }
Tensor gelu(const Tensor& x) { return unary(elementwise::Gelu{}, x); }
Tensor silu(const Tensor& x) { return unary(elementwise::Silu{}, x); }

Tensor maximum(const Tensor& a, const Tensor& b) { return binary(elementwise::Maximum{}, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return binary(elementwise::Minimum{}, a, b); }
Tensor floor_divide(const Tensor& a, const Tensor& b) { return binary(elementwise::FloorDivide{}, a, b); }
Tensor select(const Tensor& mask, const Tensor& a, const Tensor& b) { return where(mask, a, b); }

Tensor operator-(const Tensor& x) { return unary(elementwise::Negate{}, x); }
Tensor operator+(const Tensor& a, const Tensor& b) { return binary(elementwise::Add{}, a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return binary(elementwise::Subtract{}, a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return binary(elementwise::Multiply{}, a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return binary(elementwise::Divide{}, a, b); }
Tensor operator==(const Tensor& a, const Tensor& b) { return binary(elementwise::Equal{}, a, b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return binary(elementwise::NotEqual{}, a, b); }
Tensor operator<(const Tensor& a, const Tensor& b) { return binary(elementwise::Less{}, a, b); }
Tensor operator<=(const Tensor& a, const Tensor& b) { return binary(elementwise::LessEqual{}, a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return binary(elementwise::Greater{}, a, b); }
Tensor operator>=(const Tensor& a, const Tensor& b) { return binary(elementwise::GreaterEqual{}, a, b); }

}  // namespace tutti
