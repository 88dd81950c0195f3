// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/shape.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace tutti {

/// The sizes of a convolution of images [channels, height, width] with kernels [channels, kernel_height, kernel_width].
struct ConvolutionSizes {
  std::int64_t images;
  std::int64_t channels;
  std::int64_t height;
  std::int64_t width;
  std::int64_t out_channels;
  std::int64_t kernel_height;
  std::int64_t kernel_width;
  std::int64_t out_height;
  std::int64_t out_width;
  Conv2dGeometry geometry;

  ConvolutionSizes(const Conv2dGeometry& g, const Shape& input, const Shape& weight, const Shape& output)
      : images(input[0]),
        channels(input[1]),
        height(input[2]),
        width(input[3]),
        out_channels(weight[0]),
        kernel_height(weight[2]),
        kernel_width(weight[3]),
        out_height(output[2]),
        out_width(output[3]),
        geometry(g) {
    // A stride beyond the padded image is as good as one across it, and does not overflow.
    geometry.stride[0] = std::min(geometry.stride[0], std::max<std::int64_t>(1, padded_height()));
    geometry.stride[1] = std::min(geometry.stride[1], std::max<std::int64_t>(1, padded_width()));
  }

  /// The same with one group's channels alone.
  ConvolutionSizes of_group() const {
    ConvolutionSizes part = *this;
    part.channels /= geometry.groups;
    part.out_channels /= geometry.groups;
    part.geometry.groups = 1;
    return part;
  }

  /// True if the gradient of the images is a convolution, too: of the output's gradient, with the kernel's taps in
  /// reverse. Its sizes.
  bool has_convolved_gradient() const {
    return geometry.stride == std::array<std::int64_t, 2>{1, 1} && geometry.padding[0] <= reach(0) &&
           geometry.padding[1] <= reach(1);
  }
  ConvolutionSizes of_gradient() const {
    ConvolutionSizes back = *this;
    std::swap(back.channels, back.out_channels);
    std::swap(back.height, back.out_height);
    std::swap(back.width, back.out_width);
    for (std::size_t axis : {0U, 1U}) back.geometry.padding[axis] = reach(axis) - geometry.padding[axis];
    return back;
  }

  std::int64_t image_size() const { return channels * height * width; }
  std::int64_t output_size() const { return out_channels * positions(); }
  std::int64_t padded_height() const { return height + 2 * geometry.padding[0]; }
  std::int64_t padded_width() const { return width + 2 * geometry.padding[1]; }
  bool is_padded() const { return geometry.padding[0] > 0 || geometry.padding[1] > 0; }
  std::int64_t padded_size() const { return channels * padded_height() * padded_width(); }
  std::int64_t taps() const { return channels * kernel_height * kernel_width; }
  std::int64_t positions() const { return out_height * out_width; }

 private:
  /// How far the kernel's last tap lies behind its first.
  std::int64_t reach(std::size_t axis) const {
    return ((axis == 0 ? kernel_height : kernel_width) - 1) * geometry.dilation[axis];
  }
};

/// Writes an image with its padding, zeros, around it: padded_size() elements.
template <class T> void pad_image(const ConvolutionSizes&, const T* image, T* padded);

/// Adds up what each tap of the kernel has for one image: row (channel, r, s) of `columns` holds positions() elements,
/// those in the padding count for nothing; rows are `row_length` apart. Each element of the image becomes the sum of
/// all that are for it. `padded` has room for padded_size() elements.
template <class T>
void columns_to_image(const ConvolutionSizes&, const T* columns, std::int64_t row_length, T* padded, T* image);

}  // namespace tutti
