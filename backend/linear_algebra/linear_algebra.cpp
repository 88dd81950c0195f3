// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/linear_algebra/linear_algebra.h>

#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/cpu/linear_algebra/linear_algebra_kernels.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>

namespace tutti {
namespace {

void require_matrices(std::string_view operation, const Array& operand) {
  checks::require_defined(operation, operand);
  if (operand.dtype() != DType::f32 && operand.dtype() != DType::f64)
    checks::raise_dtype(operation, operand, "f32 or f64");
  if (operand.rank() < 2) raise<ShapeError>("[{}] {} has no rows and columns", operation, to_string(operand.shape()));
}

void require_square(std::string_view operation, const Array& operand) {
  require_matrices(operation, operand);
  if (operand.length(-2) != operand.length(-1))
    raise<ShapeError>("[{}] matrices must be square, not {}", operation, to_string(operand.shape()));
}

Array empty_like(const Array& operand, std::initializer_list<std::int64_t> last_axes, DType dtype) {
  Shape shape = batch_of(operand.shape());
  for (const std::int64_t length : last_axes) shape.push_back(length);
  return Array::empty(shape, dtype, operand.device());
}

void require_system(std::string_view operation, const Array& matrix, const Array& right) {
  checks::require_alike(operation, matrix, right);
  require_square(operation, matrix);
  require_matrices(operation, right);
  if (batch_of(matrix.shape()) != batch_of(right.shape()) || matrix.length(-1) != right.length(-2))
    raise<ShapeError>("[{}] right side {} does not fit the matrix {}", operation, to_string(right.shape()),
                      to_string(matrix.shape()));
}

/// right[..., permutation[i], j] at [..., i, j].
Array permuted_rows(const Array& right, const Array& permutation) {
  return gather(right, -2, permutation.expand_dims(-1).broadcast_to(right.shape()));
}

/// The operand's backend, once the CPU's has the kernels that this file asks for.
Backend& backend_of(const Array& operand) {
  provide_linear_algebra();
  return backend_for(operand.device());
}

/// Named in errors, unless the thread was asked for something else: `operation`.
Array substituted(std::string_view operation, Triangle triangle, const Array& matrix, const Array& right) {
  const Array result = Array::empty(right.shape(), right.dtype(), right.device());
  backend_of(right).solve_triangular({triangle, detail::operation_called(operation)}, matrix.contiguous(),
                                     right.contiguous(), result);
  return result;
}

}  // namespace

Array factorize(Factorization kind, const Array& matrix) {
  const std::string_view operation = name_of(kind);
  checks::require_enumerator(operation, "Factorization", kind, Factorization::eigenvalues);
  if (kind == Factorization::svd || kind == Factorization::singular_values || kind == Factorization::qr)
    require_matrices(operation, matrix);
  else
    require_square(operation, matrix);
  const std::int64_t rows = matrix.length(-2);
  const std::int64_t columns = matrix.length(-1);
  if (kind == Factorization::qr && rows < columns)
    raise<ShapeError>("[qr] matrices must have as many rows as columns or more, not {}", to_string(matrix.shape()));
  Array result = empty_like(matrix, {factor_rows(kind, rows, columns), std::min(rows, columns)}, matrix.dtype());
  if (result.size() > 0) backend_of(matrix).factorize(kind, matrix.contiguous(), result);
  return result;
}

LuFactors lu(const Array& matrix) {
  require_square("lu", matrix);
  const std::int64_t n = matrix.length(-1);
  LuFactors result{empty_like(matrix, {n, n}, matrix.dtype()), empty_like(matrix, {n}, DType::i64),
                   empty_like(matrix, {1}, matrix.dtype())};
  if (result.factors.size() > 0)
    backend_of(matrix).lu(matrix.contiguous(), result.factors, result.permutation, result.sign);
  else
    result.sign.fill(1);
  return result;
}

Array solve(const Array& matrix, const Array& right) {
  require_system("solve", matrix, right);
  if (right.size() == 0) return right.copy();
  const LuFactors factors = lu(matrix);
  const Array below = substituted("solve", {.unit = true}, factors.factors, permuted_rows(right, factors.permutation));
  return substituted("solve", {.upper = true}, factors.factors, below);
}

Array solve_triangular(Triangle triangle, const Array& matrix, const Array& right) {
  require_system("solve_triangular", matrix, right);
  if (right.size() == 0) return right.copy();
  return substituted("solve_triangular", triangle, matrix, right);
}

}  // namespace tutti
