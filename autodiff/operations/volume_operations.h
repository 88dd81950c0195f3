// SPDX-License-Identifier: Apache-2.0
#pragma once

// Convolution and pooling of volumes [n, c, d, h, w], composed of those of images. Definitions are those of
// torch.nn.functional. Differentiable any number of times, in floating types; bf16 and f16 are computed in f32 and
// rounded once, of convolutions again where a bias is added, and conv_transpose3d, as conv3d's gradient, rounds what
// each slice of the kernel gives before these are added. ShapeError says what does not fit, DTypeError that a type
// is not floating or that input and weight differ in it.

#include <tutti/autodiff/operations/image_operations.h>

namespace tutti {

/// Cross-correlation: weight [k, c / groups, q, r, s], bias [k] -> [n, k, d', h', w'],
/// d' = (d + 2 padding - dilation (q - 1) - 1) / stride + 1. Holds q copies of the input, for backward too.
Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, const Conv3dGeometry& = {});
/// The gradient of conv3d with respect to its input, as conv_transpose2d: weight [c, k / groups, q, r, s], bias [k] ->
/// [n, k, d', h', w'], d' = (d - 1) stride - 2 padding + dilation (q - 1) + output_padding + 1.
Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose3dGeometry& = {});

/// Pooling as max_pool2d and avg_pool2d: [n, c, d, h, w] -> [n, c, d', h', w'],
/// d' = (d + 2 padding - kernel) / stride + 1.
Tensor max_pool3d(const Tensor& input, const Pool3dGeometry& = {});
Tensor avg_pool3d(const Tensor& input, const AvgPool3dGeometry& = {});

}  // namespace tutti
