// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

namespace tutti {

namespace {

bool is_transposed(const Array& matrix) {
  const std::size_t rank = matrix.rank();
  return rank >= 2 && matrix.strides()[rank - 1] != 1 && matrix.strides()[rank - 2] == 1;
}

// lhs rhs, laid out in memory as `like` is: a transposed weight's gradient then reaches the weight contiguous, where a
// copy would cost about as much as the product.
Tensor product_like(const Array& like, const Tensor& lhs, const Tensor& rhs) {
  return is_transposed(like) ? transpose(matmul(transpose(rhs), transpose(lhs))) : matmul(lhs, rhs);
}

// The same, written to `destination`, which has the operand's shape; null if it lies otherwise than the product would.
Tensor product_in(const Array& destination, const Array& lhs, const Array& rhs) {
  if (destination.is_contiguous()) return Tensor(matmul(lhs, rhs, destination));
  const Array transposed = destination.transpose();
  if (!transposed.is_contiguous()) return {};
  matmul(rhs.transpose(), lhs.transpose(), transposed);
  return Tensor(destination);
}

// A vector is made a matrix, which its user did not give: what does not fit is told before.
void check_vectors(const Shape& lhs, const Shape& rhs) {
  if (lhs.empty() || rhs.empty())
    raise<ShapeError>("[matmul] a scalar is no matrix: {} x {}", to_string(lhs), to_string(rhs));
  if (lhs[lhs.size() - 1] == rhs[rhs.size() - std::min<std::size_t>(rhs.size(), 2)]) return;
  raise<ShapeError>("[matmul] inner dimensions differ: {} x {}", to_string(lhs), to_string(rhs));
}

// dL/d(operand) from the two factors that make it, summed over the axes that were broadcast.
Tensor operand_gradient(const Array& operand, const Array& destination, const Tensor& lhs, const Tensor& rhs) {
  if (destination.defined() && lhs.rank() == 2 && rhs.rank() == 2)
    if (Tensor gradient = product_in(destination, lhs.array(), rhs.array()); gradient.defined()) return gradient;
  return sum_to(product_like(operand, lhs, rhs), operand.shape());
}

}  // namespace

// C = A B: dA = dC B^T, dB = A^T dC, each summed over the axes that were broadcast.
Tensor matmul(const Tensor& lhs, const Tensor& rhs) {
  const OperationScope scope("matmul", lhs, rhs);
  if (lhs.rank() < 2 || rhs.rank() < 2) check_vectors(lhs.shape(), rhs.shape());
  if (lhs.rank() == 1) return squeeze(matmul(expand_dims(lhs, 0), rhs), rhs.rank() == 1 ? -1 : -2);
  if (rhs.rank() == 1) return squeeze(matmul(lhs, expand_dims(rhs, 1)), -1);
  const auto [a, b] = promote_pair(elementwise::Domain::floating, "matmul", lhs, rhs);
  const Tensor inputs[] = {a, b};
  return record("matmul", matmul(a.array(), b.array()), inputs, [&] {
    return [saved_a = save(a, 0), saved_b = save(b, 1)](const auto& restore, const Tensor& dy,
                                                        InputGradients& gradients) {
      if (gradients.wanted(0))
        gradients.set(0, operand_gradient(saved_a.value, gradients.destination(0), dy, transpose(restore(saved_b))));
      if (gradients.wanted(1))
        gradients.set(1, operand_gradient(saved_b.value, gradients.destination(1), transpose(restore(saved_a)), dy));
    };
  });
}

namespace {

using elementwise::Domain;

// dL/dz for y = relu(z), from y. Gelu's would need z: see below.
Tensor before_activation(LinearActivation activation, const Tensor& y, const Tensor& dy) {
  if (activation == LinearActivation::none) return dy;
  const elementwise::Relu relu;
  if (grad_enabled()) return relu.gradient(y, dy);
  const Array inputs[] = {y.array(), dy.array()};
  return Tensor(apply_gradient(relu, ElementwiseCall::Part::gradient, inputs));
}

// y = f(z), z = x W^T + b: dx = dz W, dW = dz^T x, db = the sum of dz's rows.
Tensor linear_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, LinearActivation activation) {
  // The bias before the weight: gradients are then final in the reverse order of a layer's parameters, as everywhere.
  const Tensor all[] = {x, bias.defined() ? bias : weight, weight};
  const std::span<const Tensor> inputs(all, bias.defined() ? 3 : 2);
  const std::size_t w = inputs.size() - 1;
  // Gelu's gradient is a function of z: recorded, z is kept, and the activation is an operation of its own. z of a
  // narrow type is rounded then; the result shall not depend on whether it is recorded.
  if (activation == LinearActivation::gelu && (records(inputs) || is_narrow(x.dtype())))
    return gelu(linear_rows(x, weight, bias, LinearActivation::none));
  Array value = linear(x.array(), weight.array(), bias.defined() ? bias.array() : Array(), activation);
  const Array y = activation == LinearActivation::relu ? value : Array();
  return record("linear", std::move(value), inputs, [&] {
    return [saved_x = save(x, 0), saved_w = save(weight, static_cast<int>(w)),
            saved_y = SavedTensor{y, SavedTensor::kOutput}, activation, w,
            bias_shape = bias.defined() ? bias.shape() : Shape{}](const auto& restore, const Tensor& dy,
                                                                  InputGradients& gradients) {
      const Tensor dz = before_activation(activation, saved_y.value.defined() ? restore(saved_y) : Tensor(), dy);
      if (gradients.wanted(0))
        gradients.set(0, operand_gradient(saved_x.value, gradients.destination(0), dz, restore(saved_w)));
      if (gradients.wanted(w))
        gradients.set(w, operand_gradient(saved_w.value, gradients.destination(w), transpose(dz), restore(saved_x)));
      if (w > 1 && gradients.wanted(1)) gradients.set(1, sum_to(dz, bias_shape, gradients.destination(1)));
    };
  });
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, LinearActivation activation) {
  const OperationScope scope("linear", x, weight, bias);
  if (weight.rank() != 2 || x.rank() < 1 || x.length(-1) != weight.length(1))
    raise<ShapeError>("[linear] input {} does not fit weight {}: the input's last axis must be the weight's second",
                      to_string(x.shape()), to_string(weight.shape()));
  if (bias.defined() && (bias.rank() != 1 || bias.length(0) != weight.length(0)))
    raise<ShapeError>("[linear] bias {} does not fit weight {}", to_string(bias.shape()), to_string(weight.shape()));
  auto [input, w] = promote_pair(Domain::floating, "linear", x, weight);
  Tensor b = bias;
  if (b.defined()) {
    std::tie(input, b) = promote_pair(Domain::floating, "linear", input, b);
    std::tie(input, w) = promote_pair(Domain::floating, "linear", input, w);
  }
  if (input.rank() == 2) return linear_rows(input, w, b, activation);
  Shape shape = input.shape();
  shape[shape.size() - 1] = w.length(0);
  std::int64_t count = 1;  // spelled out, because -1 has no meaning without features
  for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) count *= shape[axis];
  return reshape(linear_rows(reshape(input, {count, w.length(1)}), w, b, activation), shape);
}

}  // namespace tutti
