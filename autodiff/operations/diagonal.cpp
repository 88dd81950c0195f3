// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/strided_view.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

#include <algorithm>

namespace tutti {

Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t axis0, std::int64_t axis1) {
  const OperationScope scope("diagonal", x);
  const std::size_t rows = normalize_axis("diagonal", axis0, x.rank());
  const std::size_t columns = normalize_axis("diagonal", axis1, x.rank());
  if (rows == columns) raise<ShapeError>("[diagonal] axes {} and {} are the same", axis0, axis1);
  StridedView view;
  view.first.assign(x.rank(), 0);
  const std::int64_t along = std::clamp(offset, -x.shape()[rows], x.shape()[columns]);  // beyond, all are empty
  const std::int64_t below = std::max<std::int64_t>(-along, 0);
  const std::int64_t right = std::max<std::int64_t>(along, 0);
  const std::int64_t length = std::min(x.shape()[rows] - below, x.shape()[columns] - right);
  if (length > 0) view.first[rows] = below, view.first[columns] = right;
  for (std::size_t i = 0; i < x.rank(); ++i)
    if (i != rows && i != columns) view.axes.push_back({x.shape()[i], 1, static_cast<std::int64_t>(i)});
  view.axes.push_back({length, 1, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)});
  return take_view("diagonal", x, view);
}

namespace {

// Column - row of the last two axes: [rows, columns], i64.
Tensor diagonals_of(std::string_view operation, const Tensor& x) {
  if (x.rank() < 2) raise<ShapeError>("[{}] {} has no rows and columns", operation, to_string(x.shape()));
  const Tensor row(Array::arange(x.length(-2), DType::i64, x.device()).expand_dims(1));
  const Tensor column(Array::arange(x.length(-1), DType::i64, x.device()));
  return column - row;
}

}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  const OperationScope scope("tril", x);
  const Tensor kept = diagonals_of("tril", x) <= Tensor(Scalar(diagonal));
  return where(kept, x, Tensor(Array::zeros({}, x.dtype(), x.device())));
}

Tensor triu(const Tensor& x, std::int64_t diagonal) {
  const OperationScope scope("triu", x);
  return masked_fill(x, diagonals_of("triu", x) < Tensor(Scalar(diagonal)), Tensor(Scalar(0)));
}

}  // namespace tutti
