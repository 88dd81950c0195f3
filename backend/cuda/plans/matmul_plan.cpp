// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/plans/matmul_plan.h>

#include <algorithm>

namespace tutti {
namespace {

/// Row-major [rows, columns] is column-major [columns, rows], which is just what is multiplied; a transposed view is
/// stored the other way round.
MatmulPlan::Operand operand_of(const Array& matrix) {
  const std::size_t row = matrix.rank() - 2;
  const std::int64_t rows = matrix.shape()[row];
  const std::int64_t columns = matrix.shape()[row + 1];
  const std::int64_t row_stride = matrix.strides()[row];
  const std::int64_t column_stride = matrix.strides()[row + 1];
  if (column_stride == 1 && row_stride >= columns) return {columns, rows, row_stride, false};
  return {rows, columns, column_stride, true};
}

/// Leading axes of the output, without those of length 1; neighbours that step alike in all three are one.
std::vector<MatmulPlan::Axis> leading_axes(const Array& lhs, const Array& rhs, const Array& output) {
  std::vector<MatmulPlan::Axis> axes;
  for (std::size_t i = 0; i + 2 < output.rank(); ++i) {
    const MatmulPlan::Axis next{output.shape()[i], rhs.strides()[i], lhs.strides()[i], output.strides()[i]};
    if (next.length == 1) continue;
    const bool joins = !axes.empty() && axes.back().first == next.first * next.length &&
                       axes.back().second == next.second * next.length &&
                       axes.back().output == next.output * next.length;
    if (joins)
      axes.back() = {axes.back().length * next.length, next.first, next.second, next.output};
    else
      axes.push_back(next);
  }
  return axes;
}

}  // namespace

MatmulPlan::MatmulPlan(const Array& lhs, const Array& rhs, const Array& to)
    : first(operand_of(rhs)),
      second(operand_of(lhs)),
      output{to.length(-1), to.length(-2), to.length(-1), false},
      inner(lhs.length(-1)),
      outer(leading_axes(lhs, rhs, to)) {
  if (outer.empty()) return;
  batch = outer.back();
  outer.pop_back();
  first.batch_stride = batch.first;
  second.batch_stride = batch.second;
  output.batch_stride = batch.output;
}

std::int64_t MatmulPlan::calls() const {
  std::int64_t calls = (batch.length + kMostInBatch - 1) / kMostInBatch;
  for (const Axis& axis : outer) calls *= axis.length;
  return calls;
}

MatmulPlan::Call MatmulPlan::call(std::int64_t index) const {
  Call call{};
  const auto step = [&call](const Axis& axis, std::int64_t position) {
    call.first += position * axis.first;
    call.second += position * axis.second;
    call.output += position * axis.output;
  };
  const std::int64_t parts = (batch.length + kMostInBatch - 1) / kMostInBatch;
  const std::int64_t begin = index % parts * kMostInBatch;
  call.batch = std::min(kMostInBatch, batch.length - begin);
  step(batch, begin);
  index /= parts;
  for (std::size_t i = outer.size(); i-- > 0;) {
    step(outer[i], index % outer[i].length);
    index /= outer[i].length;
  }
  return call;
}

}  // namespace tutti
