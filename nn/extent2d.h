// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace tutti {

/// Height and width of a window; one number stands for both: `.padding = 1`, `.stride = {2, 1}`.
struct Extent2d {
  std::int64_t height;
  std::int64_t width;

  constexpr Extent2d(std::int64_t both) : height(both), width(both) {}
  constexpr Extent2d(std::int64_t height_, std::int64_t width_) : height(height_), width(width_) {}

  /// Each of the two, or where it is 0 that of the other.
  constexpr Extent2d or_else(const Extent2d& other) const {
    return {height == 0 ? other.height : height, width == 0 ? other.width : width};
  }
  constexpr std::array<std::int64_t, 2> values() const { return {height, width}; }
};

}  // namespace tutti
