// SPDX-License-Identifier: Apache-2.0
// Products made of matmul.
#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

#include <algorithm>

namespace tutti {

namespace {

// The axes of an operand that are summed over, and the others.
struct Contraction {
  Dims summed;
  Dims kept;
  Shape result;  // lengths of those kept
  std::int64_t inner = 1;
  std::int64_t outer = 1;

  Contraction(const Tensor& x, const Axes& axes) {
    for (const std::int64_t axis : axes) {
      const auto place = static_cast<std::int64_t>(normalize_axis("tensordot", axis, x.rank()));
      if (std::find(summed.begin(), summed.end(), place) != summed.end())
        raise<ShapeError>("[tensordot] axis {} is named twice", axis);
      summed.push_back(place);
      inner *= x.shape()[static_cast<std::size_t>(place)];
    }
    for (std::size_t i = 0; i < x.rank(); ++i) {
      const auto axis = static_cast<std::int64_t>(i);
      if (std::find(summed.begin(), summed.end(), axis) != summed.end()) continue;
      kept.push_back(axis);
      result.push_back(x.shape()[i]);
      outer *= x.shape()[i];
    }
  }
};

Axes joined(Dims first, const Dims& second) {
  for (const std::int64_t axis : second) first.push_back(axis);
  return first;
}

}  // namespace

Tensor tensordot(const Tensor& lhs, const Tensor& rhs, const Axes& lhs_axes, const Axes& rhs_axes) {
  const OperationScope scope("tensordot", lhs, rhs);
  if (lhs_axes.size() != rhs_axes.size())
    raise<ShapeError>("[tensordot] {} axes of the left operand beside {} of the right one", lhs_axes.size(),
                      rhs_axes.size());
  const Contraction left(lhs, lhs_axes);
  const Contraction right(rhs, rhs_axes);
  for (std::size_t i = 0; i < left.summed.size(); ++i) {
    const std::int64_t a = lhs.length(left.summed[i]);
    const std::int64_t b = rhs.length(right.summed[i]);
    if (a != b)
      raise<ShapeError>("[tensordot] axes {} and {} have lengths {} and {}", left.summed[i], right.summed[i], a, b);
  }
  const Tensor product = matmul(reshape(permute(lhs, joined(left.kept, left.summed)), {left.outer, left.inner}),
                                reshape(permute(rhs, joined(right.summed, right.kept)), {right.inner, right.outer}));
  Shape shape = left.result;
  for (const std::int64_t length : right.result) shape.push_back(length);
  return reshape(product, shape);
}

Tensor tensordot(const Tensor& lhs, const Tensor& rhs, std::int64_t count) {
  const OperationScope scope("tensordot", lhs, rhs);
  if (count < 0 || count > static_cast<std::int64_t>(std::min(lhs.rank(), rhs.rank())))
    raise<ShapeError>("[tensordot] {} axes of {} and {}", count, to_string(lhs.shape()), to_string(rhs.shape()));
  Dims last;
  Dims first;
  for (std::int64_t i = 0; i < count; ++i) {
    last.push_back(static_cast<std::int64_t>(lhs.rank()) - count + i);
    first.push_back(i);
  }
  return tensordot(lhs, rhs, last, first);
}

Tensor outer(const Tensor& column, const Tensor& row) {
  const OperationScope scope("outer", column, row);
  if (column.rank() != 1 || row.rank() != 1)
    raise<ShapeError>("[outer] {} and {}: both must have one axis", to_string(column.shape()), to_string(row.shape()));
  return expand_dims(column, 1) * row;
}

// Narrow operands are multiplied in f32 where the product is scaled, so that nothing is rounded, or overflows, before.
Tensor addmm(const Tensor& given, const Tensor& lhs, const Tensor& rhs, double beta, double alpha) {
  const OperationScope scope("addmm", given, lhs, rhs);
  const auto [a, b] = promote_pair(elementwise::Domain::floating, "addmm", lhs, rhs);
  const Tensor input = beta == 0.0 ? given : promote_pair(elementwise::Domain::floating, "addmm", given, a).first;
  const Autocast as_given(DType::f32);
  const bool scaled = alpha != 1.0 || (beta != 0.0 && beta != 1.0);
  const auto operand = [scaled](const Tensor& x) { return scaled ? widened(x) : x; };
  Tensor product = matmul(operand(a), operand(b));
  if (broadcast_shapes("addmm", input.shape(), product.shape()) != product.shape())
    raise<ShapeError>("[addmm] {} does not fit a product of {}", to_string(input.shape()), to_string(product.shape()));
  if (alpha != 1.0) product = product * alpha;
  if (beta == 0.0) return cast(product, a.dtype());
  return cast((beta == 1.0 ? operand(input) : operand(input) * beta) + product, input.dtype());
}

}  // namespace tutti
