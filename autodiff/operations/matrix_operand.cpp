// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/matrix_operand.h>

#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/backend/raise.h>

#include <span>

namespace tutti {

void require_matrix(std::string_view operation, const Tensor& x) {
  if (x.rank() < 2) raise<ShapeError>("[{}] {} has no rows and columns", operation, to_string(x.shape()));
}

void require_square(std::string_view operation, const Tensor& x) {
  require_matrix(operation, x);
  if (x.length(-2) != x.length(-1))
    raise<ShapeError>("[{}] matrices must be square, not {}", operation, to_string(x.shape()));
}

Tensor matrix_operand(std::string_view operation, const Tensor& x) {
  require_matrix(operation, x);
  return widened(promote_into(elementwise::Domain::floating, operation, x));
}

Tensor square_operand(std::string_view operation, const Tensor& x) {
  require_square(operation, x);
  return matrix_operand(operation, x);
}

Tensor rounded_as(const Tensor& operand, const Tensor& result) {
  return is_floating(operand.dtype()) ? cast(result, operand.dtype()) : result;
}

Tensor symmetric_part(const Tensor& x) { return x * 0.5 + transpose(x) * 0.5; }

Shape batch_of(const Tensor& matrix) { return Shape(std::span(matrix.shape().data(), matrix.rank() - 2)); }

Shape matrix_shape(const Shape& batch, std::int64_t rows, std::int64_t columns) {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

}  // namespace tutti
