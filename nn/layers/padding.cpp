// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/layers/padding.h>

#include <tutti/backend/raise.h>

#include <algorithm>

namespace tutti {

Padding AxisPadding::resolve(std::string_view layer, std::int64_t kernel, std::int64_t stride,
                             std::int64_t dilation) const {
  if (!same_) {
    if (std::min(sides_.before, sides_.after) < 0)
      raise<ShapeError>("[{}] padding must be at least 0, got {} and {}", layer, sides_.before, sides_.after);
    return sides_;
  }
  if (stride != 1) raise<ShapeError>("[{}] padding that keeps the size needs a stride of 1, not {}", layer, stride);
  const std::int64_t zeros = dilation * (kernel - 1);
  return {zeros / 2, zeros - zeros / 2};
}

}  // namespace tutti
