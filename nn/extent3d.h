// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace tutti {

/// Depth, height and width of a window; one number stands for all: `.padding = 1`, `.stride = {1, 2, 2}`.
struct Extent3d {
  std::int64_t depth;
  std::int64_t height;
  std::int64_t width;

  constexpr Extent3d(std::int64_t all) : depth(all), height(all), width(all) {}
  constexpr Extent3d(std::int64_t depth_, std::int64_t height_, std::int64_t width_)
      : depth(depth_), height(height_), width(width_) {}

  /// Each of the three, or where it is 0 that of the other.
  constexpr Extent3d or_else(const Extent3d& other) const {
    return {depth == 0 ? other.depth : depth, height == 0 ? other.height : height, width == 0 ? other.width : width};
  }
  constexpr std::array<std::int64_t, 3> values() const { return {depth, height, width}; }
};

}  // namespace tutti
