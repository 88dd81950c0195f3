// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/parts/line_layout.h>
#include <tutti/backend/shape.h>

namespace tutti::cuda_kernels {

/// A contiguous array seen as lines along one axis: their elements are `inner` apart.
struct AxisLines {
  std::int64_t count;
  std::int64_t length;
  std::int64_t inner;
  LineLayout layout;

  /// Offset of the first element of a line.
  TUTTI_HOST_DEVICE std::int64_t first(std::int64_t line) const {
    if (inner == 1) return line * length;
    const Division at = divide(line, inner);
    return at.quotient * length * inner + at.remainder;
  }

  /// `for_warps`: as LineLayout::of takes it.
  static AxisLines of(const Shape& shape, std::size_t axis, std::int64_t for_warps = LineLayout::kSeveralPasses) {
    AxisLines lines{1, shape.empty() ? 1 : shape[axis], 1, {}};
    for (std::size_t i = axis + 1; i < shape.size(); ++i) lines.inner *= shape[i];
    lines.count = element_count(shape) / lines.length;
    lines.layout = LineLayout::of(lines.count, lines.length, lines.inner == 1, for_warps);
    return lines;
  }
};

}  // namespace tutti::cuda_kernels
