// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shapes that windows give along any number of axes, and checks of what convolutions and pooling ask of them.
// ShapeError names the operation, "conv3d", and the shapes.

#include <tutti/backend/shape.h>

#include <cstdint>
#include <string_view>

namespace tutti {

/// A number for each axis behind the channels.
struct ConvolutionAxes {
  Dims stride;
  Dims padding;
  Dims dilation;
  std::int64_t groups = 1;
  Dims output_padding{};  ///< used by transposed convolutions alone
};

/// Input [n, c, l...], weight [k, c / groups, r...] -> [n, k, l'...].
Shape convolution_shape(std::string_view operation, const ConvolutionAxes&, const Shape& input, const Shape& weight);
/// Input [n, c, l...], weight [c, k / groups, r...] -> [n, k, l'...].
Shape transposed_convolution_shape(std::string_view operation, const ConvolutionAxes&, const Shape& input,
                                   const Shape& weight);
/// One number for each of these channels.
void check_bias_shape(std::string_view operation, const Shape& bias, std::int64_t channels);

/// [n, c, l...] -> [n, c, l'...]. Every window holds an element, since padding is at most half of it.
Shape pooling_shape(std::string_view operation, const Dims& kernel, const Dims& stride, const Dims& padding,
                    const Shape& input);

/// ShapeError unless the input has channels and `axes` behind them: "input [n, c, h, w] is needed, not [3, 4]".
void check_image_rank(std::string_view operation, std::size_t axes, const Shape& input);

}  // namespace tutti
