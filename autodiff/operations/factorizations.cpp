// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/matrix_operand.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/linear_algebra/linear_algebra.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

// A graph sees one result, in which the parts stand one below the other, so that there is one gradient of them all.
// gradient(parts, gradients of the parts) is that of the matrix.
template <class Gradient> Tensor factorized(Factorization kind, const Tensor& matrix, Gradient gradient) {
  Array value = factorize(kind, matrix.array());
  const SavedTensor parts{value, SavedTensor::kOutput};
  const Tensor inputs[] = {matrix};
  return record(name_of(kind), std::move(value), inputs, [&] {
    return [parts, gradient](const auto& restore, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, gradient(restore(parts), dy));
    };
  });
}

Tensor rows(const Tensor& parts, std::int64_t begin, std::int64_t end) { return slice(parts, -2, begin, end); }

// a / b, and 0 where both are 0: what nobody asked the gradient of has none, also where values are equal.
Tensor quotient(const Tensor& a, const Tensor& b) {
  const Tensor zero(Scalar(0));
  return a / where(logical_and(a == zero, b == zero), 1, b);
}

// a^T da - (a^T da)^T: how a turns within the space of its columns.
Tensor turn(const Tensor& a, const Tensor& da) {
  const Tensor product = matmul(transpose(a), da);
  return product - transpose(product);
}

// What of da lies beside the space of a's orthonormal columns.
Tensor beside(const Tensor& a, const Tensor& da) { return da - matmul(a, matmul(transpose(a), da)); }

// (dQ + Q S) R^-T, S symmetric with the lower triangle of R dR^T - dQ^T Q: S. F. Walter and L. Lehmann, "Algorithmic
// differentiation of linear algebra functions" (2010).
Qr tall_qr(const Tensor& matrix) {
  const std::int64_t m = matrix.length(-2);
  const std::int64_t n = matrix.length(-1);
  const Tensor parts = factorized(Factorization::qr, matrix, [m, n](const Tensor& qr, const Tensor& dy) {
    const OperationScope scope("qr");
    const Tensor q = rows(qr, 0, m);
    const Tensor r = rows(qr, m, m + n);
    const Tensor dq = rows(dy, 0, m);
    const Tensor lower = tril(matmul(r, transpose(rows(dy, m, m + n))) - matmul(transpose(dq), q));
    const Tensor symmetric = lower + transpose(tril(lower, -1));
    return transpose(solve_triangular(r, transpose(dq + matmul(q, symmetric)), {.upper = true}));
  });
  return {rows(parts, 0, m), rows(parts, m, m + n)};
}

// J. Townsend, "Differentiating the singular value decomposition" (2016). The values are a row s.
Tensor svd_gradient(std::int64_t m, std::int64_t n, const Tensor& parts, const Tensor& dy) {
  const OperationScope scope("svd");
  const std::int64_t k = std::min(m, n);
  const Tensor u = rows(parts, 0, m), v = rows(parts, m, m + n), s = rows(parts, m + n, m + n + 1);
  const Tensor du = rows(dy, 0, m), dv = rows(dy, m, m + n), ds = rows(dy, m + n, m + n + 1);
  const Tensor squares = s * s;
  const Tensor gaps = squares - transpose(squares);
  const Tensor inner = quotient(turn(u, du), gaps) * s + transpose(s) * quotient(turn(v, dv), gaps);
  Tensor left = u * ds + matmul(u, inner);
  if (m > k) left = left + quotient(beside(u, du), s);
  const Tensor dx = matmul(left, transpose(v));
  return n > k ? dx + matmul(u, transpose(quotient(beside(v, dv), s))) : dx;
}

Svd recorded_svd(const Tensor& matrix) {
  const std::int64_t m = matrix.length(-2);
  const std::int64_t n = matrix.length(-1);
  const Tensor parts = factorized(Factorization::svd, matrix, [m, n](const Tensor& factors, const Tensor& dy) {
    return svd_gradient(m, n, factors, dy);
  });
  return {rows(parts, 0, m), squeeze(rows(parts, m + n, m + n + 1), -2), transpose(rows(parts, m, m + n))};
}

// V (diag(dvalues) + V^T dV / gaps) V^T, of which the symmetric part is taken behind.
Eigh recorded_eigh(const Tensor& matrix) {
  const std::int64_t n = matrix.length(-1);
  const Tensor parts = factorized(Factorization::eigh, matrix, [n](const Tensor& factors, const Tensor& dy) {
    const OperationScope scope("eigh");
    const Tensor v = rows(factors, 0, n);
    const Tensor values = rows(factors, n, n + 1);
    const Tensor turned = quotient(turn(v, rows(dy, 0, n)) * 0.5, values - transpose(values));
    return matmul(v * rows(dy, n, n + 1) + matmul(v, turned), transpose(v));
  });
  return {squeeze(rows(parts, n, n + 1), -2), rows(parts, 0, n)};
}

bool is_recorded(const Tensor& x) { return records({&x, 1}); }

}  // namespace

// Of a wide matrix the first columns are taken apart, and the others turned with them.
Qr qr(const Tensor& x) {
  const OperationScope scope("qr", x);
  const Tensor a = matrix_operand("qr", x);
  const Autocast as_given(DType::f32);
  const std::int64_t m = a.length(-2);
  const std::int64_t n = a.length(-1);
  Qr result = tall_qr(m < n ? slice(a, -1, 0, m) : a);
  if (m < n) result.r = concatenate({result.r, matmul(transpose(result.q), slice(a, -1, m, n))}, -1);
  return {rounded_as(x, result.q), rounded_as(x, result.r)};
}

Svd svd(const Tensor& x) {
  const OperationScope scope("svd", x);
  const Svd result = recorded_svd(matrix_operand("svd", x));
  return {rounded_as(x, result.u), rounded_as(x, result.s), rounded_as(x, result.vh)};
}

Tensor svdvals(const Tensor& x) {
  const OperationScope scope("svdvals", x);
  const Tensor a = matrix_operand("svdvals", x);
  if (is_recorded(a)) return rounded_as(x, recorded_svd(a).s);
  return rounded_as(x, Tensor(factorize(Factorization::singular_values, a.array()).squeeze(-2)));
}

Eigh eigh(const Tensor& x) {
  const OperationScope scope("eigh", x);
  const Eigh result = recorded_eigh(symmetric_part(square_operand("eigh", x)));
  return {rounded_as(x, result.values), rounded_as(x, result.vectors)};
}

Tensor eigvalsh(const Tensor& x) {
  const OperationScope scope("eigvalsh", x);
  const Tensor a = symmetric_part(square_operand("eigvalsh", x));
  if (is_recorded(a)) return rounded_as(x, recorded_eigh(a).values);
  return rounded_as(x, Tensor(factorize(Factorization::eigenvalues, a.array()).squeeze(-2)));
}

}  // namespace tutti
