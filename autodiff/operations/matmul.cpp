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

}  // namespace

// C = A B: dA = dC B^T, dB = A^T dC, each summed over the axes that were broadcast.
Tensor matmul(const Tensor& lhs, const Tensor& rhs) {
  const auto [a, b] = promote_pair(elementwise::Domain::floating, "matmul", lhs, rhs);
  const Tensor inputs[] = {a, b};
  return record("matmul", matmul(a.array(), b.array()), inputs, [&] {
    return [saved_a = save(a, 0), saved_b = save(b, 1)](const auto& restore, const Tensor& dy,
                                                        InputGradients& gradients) {
      if (gradients.wanted(0))
        gradients.set(0, sum_to(product_like(saved_a.value, dy, transpose(restore(saved_b))), saved_a.value.shape()));
      if (gradients.wanted(1))
        gradients.set(1, sum_to(product_like(saved_b.value, transpose(restore(saved_a)), dy), saved_b.value.shape()));
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
