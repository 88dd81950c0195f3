// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/promotion.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>

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

// dL/d(operand) from the two factors that make it, summed over the axes that were broadcast.
Tensor operand_gradient(const Array& operand, const Array& destination, const Tensor& lhs, const Tensor& rhs) {
  if (destination.defined() && lhs.rank() == 2 && rhs.rank() == 2)
    if (Tensor gradient = product_in(destination, lhs.array(), rhs.array()); gradient.defined()) return gradient;
  return sum_to(product_like(operand, lhs, rhs), operand.shape());
}

}  // namespace

// C = A B: dA = dC B^T, dB = A^T dC, each summed over the axes that were broadcast.
Tensor matmul(const Tensor& lhs, const Tensor& rhs) {
  if (lhs.rank() == 1 && rhs.rank() >= 1) return squeeze(matmul(expand_dims(lhs, 0), rhs), rhs.rank() == 1 ? -1 : -2);
  if (rhs.rank() == 1 && lhs.rank() >= 1) return squeeze(matmul(lhs, expand_dims(rhs, 1)), -1);
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

// y = x W^T + b over the last axis.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (weight.rank() != 2 || x.rank() < 1 || x.length(-1) != weight.length(1))
    raise<ShapeError>("[linear] input {} does not fit weight {}: the input's last axis must be the weight's second",
                      to_string(x.shape()), to_string(weight.shape()));
  if (bias.defined() && (bias.rank() != 1 || bias.length(0) != weight.length(0)))
    raise<ShapeError>("[linear] bias {} does not fit weight {}", to_string(bias.shape()), to_string(weight.shape()));
  Shape shape = x.shape();
  shape[shape.size() - 1] = weight.length(0);
  std::int64_t count = 1;  // spelled out, because -1 has no meaning without features
  for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) count *= shape[axis];
  const Tensor rows = x.rank() == 2 ? x : reshape(x, {count, weight.length(1)});
  const Tensor product = matmul(rows, transpose(weight));
  const Tensor y = bias.defined() ? product + bias : product;
  return x.rank() == 2 ? y : reshape(y, shape);
}

}  // namespace tutti
