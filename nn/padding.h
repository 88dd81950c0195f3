// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>

#include <cstdint>
#include <string_view>

namespace tutti {

/// Zeros before and after one axis: `.padding = 1`, as much on both sides; `.padding = {2, 0}`; or
/// `AxisPadding::same()`, so that the result is as long as the input (strides of 1 only; of an odd number of zeros one
/// more is after the axis, as in PyTorch).
class AxisPadding {
 public:
  constexpr AxisPadding(std::int64_t both) : sides_{both, both} {}
  constexpr AxisPadding(std::int64_t before, std::int64_t after) : sides_{before, after} {}
  static constexpr AxisPadding same() {
    AxisPadding padding(0);
    padding.same_ = true;
    return padding;
  }

  /// The zeros for a convolution's axis. ShapeError, naming the layer, if they are negative or there are none that keep
  /// the length.
  Padding resolve(std::string_view layer, std::int64_t kernel, std::int64_t stride, std::int64_t dilation) const;

 private:
  Padding sides_;
  bool same_ = false;
};

/// Zeros around images: `.padding = 1`, `.padding = {1, 2}` (rows, columns), `.padding = {{1, 0}, {2, 2}}`,
/// `.padding = AxisPadding::same()`.
struct Padding2d {
  AxisPadding rows;
  AxisPadding columns;

  constexpr Padding2d(std::int64_t everywhere) : rows(everywhere), columns(everywhere) {}
  constexpr Padding2d(const AxisPadding& both) : rows(both), columns(both) {}
  constexpr Padding2d(const AxisPadding& rows_, const AxisPadding& columns_) : rows(rows_), columns(columns_) {}
};

/// Zeros around volumes: as for images, and `.padding = {1, 2, 2}` of depth, rows and columns.
struct Padding3d {
  AxisPadding depth;
  AxisPadding rows;
  AxisPadding columns;

  constexpr Padding3d(std::int64_t everywhere) : Padding3d(AxisPadding(everywhere)) {}
  constexpr Padding3d(const AxisPadding& all) : depth(all), rows(all), columns(all) {}
  constexpr Padding3d(const AxisPadding& depth_, const AxisPadding& rows_, const AxisPadding& columns_)
      : depth(depth_), rows(rows_), columns(columns_) {}
};

}  // namespace tutti
