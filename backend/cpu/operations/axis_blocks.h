// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/shape.h>

#include <algorithm>

namespace tutti {

/// A contiguous array seen as [outer, length, inner] around one axis.
struct AxisBlocks {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;

  AxisBlocks(const Shape& shape, std::size_t axis) : length(shape.empty() ? 1 : shape[axis]) {
    for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  }

  /// Offset of the first element of line `i`, counted along outer and inner.
  std::int64_t first(std::int64_t i) const { return i / inner * length * inner + i % inner; }

  /// Lines that one thread takes at a time.
  std::int64_t grain() const { return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, length)); }
};

}  // namespace tutti
