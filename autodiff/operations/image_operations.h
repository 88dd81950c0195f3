// SPDX-License-Identifier: Apache-2.0
#pragma once

// Convolution and pooling of images [n, c, h, w] and of sequences [n, c, l], which are taken as images of one row:
// views, no copies. Definitions are those of torch.nn.functional. All are differentiable any number of times, in
// floating types; bf16 and f16 are computed in f32 and rounded once, and again where a bias is added. ShapeError says
// what does not fit, DTypeError that a type is not floating or that input and weight differ in it.

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/calls/kernel_arguments.h>

#include <cstddef>
#include <cstdint>

namespace tutti {

/// Cross-correlation: weight [k, c / groups, r, s], bias [k] -> [n, k, h', w'],
/// h' = (h + 2 padding - dilation (r - 1) - 1) / stride + 1. For other padding than as much on both sides see `pad`.
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, const Conv2dGeometry& = {});
/// The same for sequences: weight [k, c / groups, s], bias [k] -> [n, k, l'].
Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, const Conv1dGeometry& = {});

/// Geometry of a transposed convolution. `output_padding`: that many more elements at the end of each axis, less than
/// its stride or dilation.
template <std::size_t axes> struct ConvTransposeGeometry {
  AxisNumbers<axes> stride = kOnEachAxis<axes, 1>;
  AxisNumbers<axes> padding = kOnEachAxis<axes, 0>;
  AxisNumbers<axes> output_padding = kOnEachAxis<axes, 0>;
  AxisNumbers<axes> dilation = kOnEachAxis<axes, 1>;
  std::int64_t groups = 1;
};
using ConvTranspose1dGeometry = ConvTransposeGeometry<1>;
using ConvTranspose2dGeometry = ConvTransposeGeometry<2>;
using ConvTranspose3dGeometry = ConvTransposeGeometry<3>;

/// The gradient of conv2d with respect to its input, as an operation: what conv2d of the same geometry would have made
/// `input` of. Weight [c, k / groups, r, s], bias [k]: [n, c, h, w] -> [n, k, h', w'],
/// h' = (h - 1) stride - 2 padding + dilation (r - 1) + output_padding + 1.
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dGeometry& = {});
/// The same for sequences: weight [c, k / groups, s], bias [k] -> [n, k, l'].
Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dGeometry& = {});

/// The largest of each window, whose gradient goes to the first such; NaN wins. Padding, at most half of the kernel, is
/// never chosen. [n, c, h, w] -> [n, c, h', w'], h' = (h + 2 padding - kernel) / stride + 1. Gradients of windows that
/// overlap add up.
Tensor max_pool2d(const Tensor& input, const Pool2dGeometry& = {});
/// The same for sequences: [n, c, l] -> [n, c, l'], l' = (l + 2 padding - kernel) / stride + 1.
Tensor max_pool1d(const Tensor& input, const Pool1dGeometry& = {});

/// The mean of each window, of the same shape. Padding counts as zeros, or not at all without `count_include_pad`.
Tensor avg_pool2d(const Tensor& input, const AvgPool2dGeometry& = {});
/// The same for sequences, of max_pool1d's shape.
Tensor avg_pool1d(const Tensor& input, const AvgPool1dGeometry& = {});

}  // namespace tutti
