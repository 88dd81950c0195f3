// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>

#include <algorithm>

namespace tutti::testing {
namespace {

Triangle triangle(const Call& c) { return {c.attributes.flag("upper"), c.attributes.flag("unit")}; }

// The sum of the columns' products, each with a weight of its own, which no signs of columns change. Results bear the
// name of what gave the columns.

Tensor weights(const Tensor& x) {
  const std::int64_t count = x.length(-1);
  const Tensor whole(Array::arange(count, x.dtype(), x.device()));
  return (whole + 1.0) / static_cast<double>(std::max<std::int64_t>(1, count));
}

Tensor joined(const Tensor& a, const Tensor& b) { return matmul(a * weights(a), transpose(b)); }

std::vector<Tensor> without_signs(const Qr& found) {
  const OperationScope scope("qr");
  const Tensor signs = sign(diagonal(found.r.detach(), 0, -2, -1));
  return {found.q * expand_dims(signs, -2), found.r * expand_dims(signs, -1)};
}

std::vector<Tensor> without_signs(const Svd& found) {
  const OperationScope scope("svd");
  const Tensor v = transpose(found.vh);
  return {found.s, joined(found.u, v), joined(found.u, found.u), joined(v, v)};
}

std::vector<Tensor> without_signs(const Eigh& found) {
  const OperationScope scope("eigh");
  return {found.values, joined(found.vectors, found.vectors)};
}

std::vector<Tensor> both(const SignAndLog& found) { return {found.sign, found.logabsdet}; }

}  // namespace

std::vector<Operation> linear_algebra_operations() {
  return {
      TUTTI_REFERENCE(cholesky, cholesky(c.x[0])),
      TUTTI_REFERENCE(solve, solve(c.x[0], c.x[1])),
      TUTTI_REFERENCE(solve_triangular, solve_triangular(c.x[0], c.x[1], triangle(c))),
      TUTTI_REFERENCE(inverse, inverse(c.x[0])),
      TUTTI_REFERENCE(determinant, determinant(c.x[0])),
      TUTTI_REFERENCE(slogdet, both(slogdet(c.x[0]))),
      TUTTI_REFERENCE(qr, without_signs(qr(c.x[0]))),
      TUTTI_REFERENCE(svd, without_signs(svd(c.x[0]))),
      TUTTI_REFERENCE(svdvals, svdvals(c.x[0])),
      TUTTI_REFERENCE(eigh, without_signs(eigh(c.x[0]))),
      TUTTI_REFERENCE(eigvalsh, eigvalsh(c.x[0])),
  };
}

}  // namespace tutti::testing
