// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace tutti {

/// A number for each axis of a window, in the order of the shape: height and width, or depth, height and width. One
/// number stands for all: `.padding = 1`, `.stride = {2, 1}`.
template <std::size_t axes> class Extent {
 public:
  constexpr Extent(std::int64_t all) { numbers_.fill(all); }
  template <std::integral... Each>
    requires(axes > 1 && sizeof...(Each) == axes)
  constexpr Extent(Each... each) : numbers_{static_cast<std::int64_t>(each)...} {}

  constexpr std::int64_t operator[](std::size_t axis) const { return numbers_[axis]; }
  constexpr AxisNumbers<axes> values() const {
    if constexpr (axes == 1)
      return numbers_[0];
    else
      return numbers_;
  }
  /// Each of them, or where it is 0 that of the other.
  constexpr Extent or_else(const Extent& other) const {
    Extent chosen = *this;
    for (std::size_t axis = 0; axis < axes; ++axis)
      if (numbers_[axis] == 0) chosen.numbers_[axis] = other[axis];
    return chosen;
  }

 private:
  std::array<std::int64_t, axes> numbers_{};
};

using Extent1d = Extent<1>;
using Extent2d = Extent<2>;
using Extent3d = Extent<3>;

}  // namespace tutti
