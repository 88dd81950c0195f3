// SPDX-License-Identifier: Apache-2.0
#include <tutti/testing/device_comparison.h>

#include <tutti/backend/elementwise/arithmetic.h>
#include <tutti/backend/linear_algebra/linear_algebra.h>
#include <tutti/backend/operations.h>

#include <algorithm>

namespace tutti::testing {
namespace {

/// Its diagonal outweighs the rest, and lies apart: positive definite where it is square and symmetric, and with
/// vectors that are unique but for their signs.
Array matrices(const Shape& shape, DType dtype, bool symmetric) {
  Array x = numbers(shape, dtype, Numbers::plain, 31);
  if (symmetric) x = apply(elementwise::Add{}, x, x.transpose());
  const std::int64_t shorter = std::min(x.length(-1), x.length(-2));
  Shape diagonal(std::span(shape.data(), shape.size() - 1));
  diagonal[diagonal.size() - 1] = shorter;
  Strides strides(std::span(x.strides().data(), x.rank() - 1));
  strides[strides.size() - 1] = x.length(-1) + 1;
  const Array steps = Array::arange(shorter, dtype, cpu()).broadcast_to(diagonal);
  const Array far = Array::full(diagonal, 20, dtype, cpu());
  as_strided(x, diagonal, strides, 0)
      .copy_from(apply(elementwise::Multiply{}, apply(elementwise::Add{}, steps, far), far));
  return x;
}

}  // namespace

void compare_linear_algebra(DeviceComparison& both) {
  for (const DType dtype : {DType::f32, DType::f64})  // others come widened
    for (const Shape& shape : {Shape{1, 1}, Shape{5, 5}, Shape{2, 3, 4, 4}, Shape{33, 33}, Shape{0, 3, 3}}) {
      for (const auto kind : {Factorization::cholesky, Factorization::eigh, Factorization::eigenvalues,
                              Factorization::qr, Factorization::svd, Factorization::singular_values}) {
        const bool symmetric = kind != Factorization::qr && kind != Factorization::svd;
        both.compare(
            name_of(kind), {matrices(shape, dtype, symmetric)},
            [kind](const Arrays& in) {  // signs are each device's own
              return Arrays{apply(elementwise::Abs{}, factorize(kind, in[0]))};
            },
            Match::largest);
      }
      Shape right = shape;
      right[right.size() - 1] = 3;
      const Arrays system{matrices(shape, dtype, false), numbers(right, dtype, Numbers::plain, 32)};
      both.compare(
          "lu", {system[0]},
          [](const Arrays& in) {
            const LuFactors found = lu(in[0]);
            return Arrays{found.factors, found.permutation, found.sign};
          },
          Match::largest);
      both.compare(
          "solve", system, [](const Arrays& in) { return Arrays{solve(in[0], in[1])}; }, Match::largest);
      for (const bool upper : {false, true})
        for (const bool unit : {false, true}) {
          if (unit && shape[shape.size() - 1] > 5) continue;  // grows with every row
          both.compare(
              "solve_triangular", system,
              [=](const Arrays& in) { return Arrays{solve_triangular({.upper = upper, .unit = unit}, in[0], in[1])}; },
              Match::largest);
        }
    }
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : {Shape{7, 3}, Shape{2, 40, 20}})
      for (const auto kind : {Factorization::qr, Factorization::svd, Factorization::singular_values})
        both.compare(
            name_of(kind), {matrices(shape, dtype, false)},
            [kind](const Arrays& in) { return Arrays{apply(elementwise::Abs{}, factorize(kind, in[0]))}; },
            Match::largest);
}

}  // namespace tutti::testing
