// SPDX-License-Identifier: Apache-2.0
// Padding with what the tensor holds.
#include <tutti/autodiff/operation_scope.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>

namespace tutti {

namespace {

/// Where what stands before, in and after an axis of that length is found in it. Made on the device, so that a step
/// with it can be captured.
Tensor places_of(std::int64_t length, const Padding& widths, PaddingMode mode, Device device) {
  const Tensor i = arange(-widths.before, length + widths.after, {.device = device});
  if (mode == PaddingMode::replicate || length == 1) return clip(i, 0, length - 1);
  if (mode == PaddingMode::circular) return i % length;
  const std::int64_t period = 2 * (length - 1);
  const Tensor within = i % period;
  return minimum(within, period - within);
}

}  // namespace

Tensor pad(const Tensor& x, std::span<const Padding> widths, PaddingMode mode) {
  const OperationScope scope("pad", x);
  if (widths.size() != x.rank())
    raise<ShapeError>("[pad] {} pairs of widths for the {} axes of {}", widths.size(), x.rank(), to_string(x.shape()));
  Tensor padded = x;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    const auto [before, after] = widths[axis];
    const std::int64_t length = x.shape()[axis];
    if (before < 0 || after < 0)
      raise<ShapeError>("[pad] widths {}, {} of axis {}: they must not be negative; use slice", before, after, axis);
    if (before + after == 0) continue;
    if (length == 0) raise<ShapeError>("[pad] axis {} of {} has nothing to repeat", axis, to_string(x.shape()));
    padded = take(padded, places_of(length, widths[axis], mode, x.device()), static_cast<std::int64_t>(axis));
  }
  return padded;
}

}  // namespace tutti
