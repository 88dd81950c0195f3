// SPDX-License-Identifier: Apache-2.0
// Padding with what the tensor holds.
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/padded_shape.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/numbers/checked_size.h>
#include <tutti/backend/raise.h>

#include <vector>

namespace tutti {

namespace {

/// Where what stands at [begin, end) of an axis that goes on is found in it. Of arange, so that a step with it
/// can be captured.
Tensor places_of(std::int64_t begin, std::int64_t end, std::int64_t length, PaddingMode mode, Device device) {
  const Tensor i = arange(begin, end, {.device = device});
  if (mode == PaddingMode::replicate || length == 1) return clip(i, 0, length - 1);
  if (mode == PaddingMode::circular) return i % length;
  const std::int64_t period = 2 * (length - 1);
  const Tensor within = i % period;
  return minimum(within, period - within);
}

Tensor padded_axis(const Tensor& x, std::size_t axis, const Padding& width, PaddingMode mode) {
  const std::int64_t length = x.shape()[axis];
  const auto lines = [&](std::int64_t begin, std::int64_t end) {
    return gather_lines(x, axis, places_of(begin, end, length, mode, x.device()));
  };
  std::vector<Tensor> parts;
  if (width.before > 0) parts.push_back(lines(-width.before, 0));
  parts.push_back(x);
  if (width.after > 0) parts.push_back(lines(length, length + width.after));
  return concatenate(parts, static_cast<std::int64_t>(axis));
}

}  // namespace

Shape padded_shape(const Shape& shape, std::span<const Padding> widths) {
  if (widths.size() != shape.size())
    raise<ShapeError>("[pad] {} pairs of widths for the {} axes of {}", widths.size(), shape.size(), to_string(shape));
  Shape padded = shape;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto [before, after] = widths[axis];
    if (before < 0 || after < 0)
      raise<ShapeError>("[pad] widths {}, {} of axis {}: they must not be negative; use slice", before, after, axis);
    padded[axis] =
        (CheckedSize(shape[axis]) + before + after).get("pad", "widths {}, {} of axis {}", before, after, axis);
  }
  checked_element_count("pad", padded);
  return padded;
}

Tensor pad(const Tensor& x, std::span<const Padding> widths, PaddingMode mode) {
  const OperationScope scope("pad", x);
  checks::require_enumerator("pad", "PaddingMode", mode, PaddingMode::circular);
  const Shape shape = padded_shape(x.shape(), widths);
  for (std::size_t axis = 0; axis < x.rank(); ++axis)
    if (x.shape()[axis] == 0 && shape[axis] > 0)
      raise<ShapeError>("[pad] axis {} of {} has nothing to repeat", axis, to_string(x.shape()));
  Tensor y = x;
  for (std::size_t axis = 0; axis < x.rank(); ++axis)
    if (shape[axis] > x.shape()[axis]) y = padded_axis(y, axis, widths[axis], mode);
  return y;
}

}  // namespace tutti
