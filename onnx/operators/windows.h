// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/onnx/operators/operator_call.h>

#include <algorithm>
#include <cstddef>

namespace tutti::onnx {

/// Bound of a length that a file tells, so that sums of them do not overflow.
inline constexpr std::int64_t kMostLength = std::int64_t{1} << 40;

/// Windows over the axes behind the channels, with what ONNX's attributes mean for this input.
struct Windows {
  Integers kernel;
  Integers stride;
  Integers dilation;
  Integers begin;  ///< padding before each axis
  Integers end;    ///< padding behind each axis

  std::size_t axes() const noexcept { return kernel.size(); }
  bool is_symmetric() const { return begin == end; }
  bool is_dilated() const {
    return std::ranges::any_of(dilation, [](std::int64_t each) { return each != 1; });
  }
  std::int64_t reach(std::size_t axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
};

/// Windows of a kernel over an input, by a node's strides, dilations and padding.
Windows windows_of(const OperatorCall&, const Tensor& x, Integers kernel);

/// The input with that much of a value around it, behind the channels.
Tensor with_margin(const Tensor& x, const Integers& begin, const Integers& end, double value);

/// Numbers of a geometry; there are as many as axes.
template <std::size_t axes> AxisNumbers<axes> numbers(const Integers& from) {
  if constexpr (axes == 1) {
    return from[0];
  } else {
    AxisNumbers<axes> to{};
    std::ranges::copy(from, to.begin());
    return to;
  }
}

}  // namespace tutti::onnx
