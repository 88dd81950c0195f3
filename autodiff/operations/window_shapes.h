// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shapes that windows give along any number of axes, and checks of what convolutions and pooling ask of them.
// ShapeError names the operation, "conv3d", and the shapes.

#include <tutti/autodiff/operations/image_operations.h>
#include <tutti/backend/shape.h>

#include <array>
#include <cstddef>
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

inline Dims dims_of(std::int64_t number) { return {number}; }
template <std::size_t axes> Dims dims_of(const std::array<std::int64_t, axes>& numbers) { return Dims(numbers); }

template <std::size_t axes> ConvolutionAxes axes_of(const ConvGeometry<axes>& geometry) {
  return {dims_of(geometry.stride), dims_of(geometry.padding), dims_of(geometry.dilation), geometry.groups};
}
template <std::size_t axes> ConvolutionAxes axes_of(const ConvTransposeGeometry<axes>& geometry) {
  return {dims_of(geometry.stride), dims_of(geometry.padding), dims_of(geometry.dilation), geometry.groups,
          dims_of(geometry.output_padding)};
}

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
