// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/matrix_operand.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/linear_algebra/linear_algebra.h>
#include <tutti/backend/raise.h>

#include <utility>

namespace tutti {

namespace {

using elementwise::Domain;

// X = A^-1 B: dB = A^-T dX, dA = -dB X^T.
Tensor solved(const Tensor& matrix, const Tensor& right) {
  const OperationScope scope("solve", matrix, right);
  Array value = solve(matrix.array(), right.array());
  const SavedTensor unknown{value, SavedTensor::kOutput};
  const Tensor inputs[] = {matrix, right};
  return record("solve", std::move(value), inputs, [&] {
    return [saved = save(matrix, 0), unknown](const auto& restore, const Tensor& dx, InputGradients& gradients) {
      const Tensor db = solved(transpose(restore(saved)), dx);
      if (gradients.wanted(0)) gradients.set(0, -matmul(db, transpose(restore(unknown))));
      if (gradients.wanted(1)) gradients.set(1, db);
    };
  });
}

Tensor in_triangle(const Triangle& triangle, const Tensor& x) {
  const std::int64_t beside = triangle.unit ? 1 : 0;
  return triangle.upper ? triu(x, beside) : tril(x, -beside);
}

// The same in the triangle that is read.
Tensor substituted(const Triangle& triangle, const Tensor& matrix, const Tensor& right) {
  const OperationScope scope("solve_triangular", matrix, right);
  Array value = solve_triangular(triangle, matrix.array(), right.array());
  const SavedTensor unknown{value, SavedTensor::kOutput};
  const Tensor inputs[] = {matrix, right};
  return record("solve_triangular", std::move(value), inputs, [&] {
    return
        [triangle, saved = save(matrix, 0), unknown](const auto& restore, const Tensor& dx, InputGradients& gradients) {
          const Tensor db = substituted({!triangle.upper, triangle.unit}, transpose(restore(saved)), dx);
          if (gradients.wanted(0)) gradients.set(0, in_triangle(triangle, -matmul(db, transpose(restore(unknown)))));
          if (gradients.wanted(1)) gradients.set(1, db);
        };
  });
}

// `solve_matrices` for operands whose leading axes are alike. One matrix and many right sides are taken apart once: the
// sides' columns stand beside each other.
template <class Solve>
Tensor broadcast_solve(std::string_view operation, const Tensor& a, const Tensor& b, const Solve& solve_matrices) {
  if (a.rank() == 2 && b.rank() > 2 && b.size() > 0) {
    const Tensor rows = moveaxis(b, -2, 0);
    return moveaxis(reshape(solve_matrices(a, reshape(rows, {b.length(-2), -1})), rows.shape()), 0, -2);
  }
  const Shape batch = broadcast_shapes(operation, batch_of(a), batch_of(b));
  return solve_matrices(broadcast_to(a, matrix_shape(batch, a.length(-2), a.length(-1))),
                        broadcast_to(b, matrix_shape(batch, b.length(-2), b.length(-1))));
}

// Checks and promotes what users give, a vector as a column.
template <class Solve>
Tensor solve_any(std::string_view operation, const Tensor& matrix, const Tensor& right, const Solve& solve_matrices) {
  require_square(operation, matrix);
  const bool vector = right.rank() == 1;
  if (right.rank() == 0 || right.length(vector ? 0 : -2) != matrix.length(-1))
    raise<ShapeError>("[{}] right side {} does not fit the matrix {}", operation, to_string(right.shape()),
                      to_string(matrix.shape()));
  const auto [a, b] = promote_pair(Domain::floating, operation, matrix, right);
  const Tensor column = widened(vector ? expand_dims(b, 1) : b);
  const Tensor x = cast(broadcast_solve(operation, widened(a), column, solve_matrices), b.dtype());
  return vector ? squeeze(x, -1) : x;
}

Tensor per_matrix(const Tensor& numbers) { return expand_dims(expand_dims(numbers, -1), -1); }

Tensor pivots(const LuFactors& factors) { return diagonal(Tensor(factors.factors), 0, -2, -1); }

}  // namespace

// dA is L^-T F L^-1, of which the symmetric part is taken behind, with F = L^T dL below the diagonal and half of it on
// the diagonal: I. Murray, "Differentiation of the Cholesky decomposition" (2016), section 3.
Tensor cholesky(const Tensor& x) {
  const OperationScope scope("cholesky", x);
  const Tensor a = symmetric_part(square_operand("cholesky", x));
  Array value = factorize(Factorization::cholesky, a.array());
  const SavedTensor lower{value, SavedTensor::kOutput};
  const Tensor inputs[] = {a};
  const Tensor result = record("cholesky", std::move(value), inputs, [&] {
    return [lower](const auto& restore, const Tensor& dl, InputGradients& gradients) {
      const Tensor upper = transpose(restore(lower));
      const Tensor below = tril(matmul(upper, dl));
      const Tensor halved = (below + tril(below, -1)) * 0.5;
      const Tensor left = solve_triangular(upper, halved, {.upper = true});
      gradients.set(0, solve_triangular(upper, transpose(left), {.upper = true}));
    };
  });
  return rounded_as(x, result);
}

Tensor solve(const Tensor& matrix, const Tensor& right) {
  const OperationScope scope("solve", matrix, right);
  return solve_any("solve", matrix, right, solved);
}

Tensor solve_triangular(const Tensor& matrix, const Tensor& right, const Triangle& triangle) {
  const OperationScope scope("solve_triangular", matrix, right);
  return solve_any("solve_triangular", matrix, right,
                   [&](const Tensor& a, const Tensor& b) { return substituted(triangle, a, b); });
}

Tensor inverse(const Tensor& x) {
  const OperationScope scope("inverse", x);
  const Tensor a = square_operand("inverse", x);
  const Tensor identity = eye(a.length(-1), {.dtype = a.dtype(), .device = a.device()});
  return rounded_as(x, solved(a, broadcast_to(identity, a.shape())));
}

// d det(A) = det(A) tr(A^-1 dA)
Tensor determinant(const Tensor& x) {
  const OperationScope scope("determinant", x);
  const Tensor a = square_operand("determinant", x);
  const LuFactors factors = lu(a.array());
  Array value = (squeeze(Tensor(factors.sign), -1) * prod(pivots(factors), -1)).array();
  const SavedTensor product{value, SavedTensor::kOutput};
  const Tensor inputs[] = {a};
  const Tensor result = record("determinant", std::move(value), inputs, [&] {
    return [saved = save(a, 0), product](const auto& restore, const Tensor& dy, InputGradients& gradients) {
      const Tensor matrix = restore(saved);
      const OperationScope backward("determinant", matrix);
      gradients.set(0, per_matrix(dy * restore(product)) * transpose(inverse(matrix)));
    };
  });
  return rounded_as(x, result);
}

SignAndLog slogdet(const Tensor& x) {
  const OperationScope scope("slogdet", x);
  const Tensor a = square_operand("slogdet", x);
  const LuFactors factors = lu(a.array());
  const Tensor diagonal = pivots(factors);
  const Tensor sign_of_all = squeeze(Tensor(factors.sign), -1) * prod(sign(diagonal), -1);
  const Tensor inputs[] = {a};
  const Tensor logabsdet = record("slogdet", sum(log(abs(diagonal)), -1).array(), inputs, [&] {
    return [saved = save(a, 0)](const auto& restore, const Tensor& dy, InputGradients& gradients) {
      const Tensor matrix = restore(saved);
      const OperationScope backward("slogdet", matrix);
      gradients.set(0, per_matrix(dy) * transpose(inverse(matrix)));
    };
  });
  return {rounded_as(x, sign_of_all), rounded_as(x, logabsdet)};
}

}  // namespace tutti
