// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/operations.h>

#include <vector>

namespace tutti {

namespace {

// Each direction is the other's gradient.
Tensor summed(const Tensor& x, std::int64_t axis, bool reverse) {
  const Tensor inputs[] = {x};
  return record("cumsum", cumsum(x.array(), axis, reverse), inputs, [&] {
    return [axis, reverse](const auto&, const Tensor& dy, InputGradients& gradients) {
      gradients.set(0, summed(dy, axis, !reverse));
    };
  });
}

// A scalar, which has axes 0 and -1 to these operations, as NumPy has it.
Tensor as_line(std::string_view operation, const Tensor& scalar, std::int64_t axis) {
  if (axis != 0 && axis != -1) normalize_axis(operation, axis, 0);  // throws
  return expand_dims(scalar, 0);
}

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t axis) {
  const OperationScope scope("cumsum", x);
  if (x.rank() == 0) return reshape(cumsum(as_line("cumsum", x, axis), 0), {});
  return summed(promote_total("cumsum", x), axis, false);
}

// Hillis and Steele, "Data Parallel Algorithms" (1986): each step multiplies by what lies twice as far back.
// In f64, as these products are of parts that a product from the first to the last would not have met.
Tensor cumprod(const Tensor& x, std::int64_t axis) {
  const OperationScope scope("cumprod", x);
  if (x.rank() == 0) return reshape(cumprod(as_line("cumprod", x, axis), 0), {});
  const Tensor number = promote_total("cumprod", x);
  Tensor product = is_floating(number.dtype()) ? cast(number, DType::f64) : number;
  const std::size_t place = normalize_axis("cumprod", axis, x.rank());
  const std::int64_t length = x.shape()[place];
  std::vector<Padding> widths(x.rank());
  for (std::int64_t distance = 1; distance < length; distance *= 2) {
    widths[place].before = distance;
    product = product * pad(slice(product, axis, 0, length - distance), widths, 1);
  }
  return cast(product, number.dtype());
}

namespace {

RunningExtremes running_extremes(std::string_view name, ArgReduction kind, const Tensor& x, std::int64_t axis) {
  if (x.rank() == 0) {
    const RunningExtremes line = running_extremes(name, kind, as_line(name, x, axis), 0);
    return {reshape(line.values, {}), reshape(line.indices, {})};
  }
  const Tensor places(running_arg(kind, x.array(), axis));
  return {gather_places(x, axis, places), places};
}

}  // namespace

RunningExtremes cummax(const Tensor& x, std::int64_t axis) {
  const OperationScope scope("cummax", x);
  return running_extremes("cummax", ArgReduction::arg_max, x, axis);
}

RunningExtremes cummin(const Tensor& x, std::int64_t axis) {
  const OperationScope scope("cummin", x);
  return running_extremes("cummin", ArgReduction::arg_min, x, axis);
}

Tensor logcumsumexp(const Tensor& operand, std::int64_t axis) {
  const OperationScope scope("logcumsumexp", operand);
  if (operand.rank() == 0) return reshape(logcumsumexp(as_line("logcumsumexp", operand, axis), 0), {});
  const Tensor x = promote_into(elementwise::Domain::floating, "logcumsumexp", operand);
  Tensor sum = widened(x);
  const std::int64_t length = x.shape()[normalize_axis("logcumsumexp", axis, x.rank())];
  for (std::int64_t distance = 1; distance < length; distance *= 2) {
    const Tensor joined = logaddexp(slice(sum, axis, distance, length), slice(sum, axis, 0, length - distance));
    sum = concatenate({slice(sum, axis, 0, distance), joined}, axis);
  }
  return cast(sum, x.dtype());
}

}  // namespace tutti
