// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/operations.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti {

/// Zeros before and after one axis: `.padding = 1`, as much on both sides; `.padding = {2, 0}`; or
/// `AxisPadding::same()`, so that the result is as long as the input (strides of 1 only; of an odd number of zeros one
/// more is after the axis, as in PyTorch).
class AxisPadding {
 public:
  constexpr AxisPadding(std::int64_t both = 0) : sides_{both, both} {}
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

/// Zeros around each axis of a convolution: `.padding = 1`, everywhere; `.padding = {1, 2}`, of rows and columns;
/// `.padding = {{1, 0}, {2, 2}}`; `.padding = AxisPadding::same()`. Of volumes the depth comes first, of sequences
/// `.padding = {2, 0}` is before and after.
template <std::size_t axes> class AxesPadding {
 public:
  constexpr AxesPadding(std::int64_t everywhere) : AxesPadding(AxisPadding(everywhere)) {}
  constexpr AxesPadding(const AxisPadding& all) { axes_.fill(all); }
  constexpr AxesPadding(std::int64_t before, std::int64_t after)
    requires(axes == 1)
      : axes_{AxisPadding(before, after)} {}
  constexpr AxesPadding(const AxisPadding& rows, const AxisPadding& columns)
    requires(axes == 2)
      : axes_{rows, columns} {}
  constexpr AxesPadding(const AxisPadding& depth, const AxisPadding& rows, const AxisPadding& columns)
    requires(axes == 3)
      : axes_{depth, rows, columns} {}

  constexpr const AxisPadding& operator[](std::size_t axis) const { return axes_[axis]; }

 private:
  std::array<AxisPadding, axes> axes_;
};
using Padding2d = AxesPadding<2>;
using Padding3d = AxesPadding<3>;

}  // namespace tutti
