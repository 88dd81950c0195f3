// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/operations/window_count.h>

#include <tutti/backend/numbers/checked_size.h>

namespace tutti {

std::int64_t window_count(std::string_view operation, const WindowAxis& axis) {
  const auto [length, kernel, stride, padding, dilation] = axis;
  const CheckedSize extent = CheckedSize(dilation) * (CheckedSize(kernel) - 1) + 1;
  const CheckedSize padded = CheckedSize(length) + 2 * CheckedSize(padding);
  const std::int64_t taken = extent.get(operation, "a kernel of {} with dilation {}", kernel, dilation);
  const std::int64_t given = padded.get(operation, "an axis of {} with padding {}", length, padding);
  return given < taken ? 0 : (given - taken) / stride + 1;
}

}  // namespace tutti
