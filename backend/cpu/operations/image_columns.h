// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/shape.h>

#include <algorithm>

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

  std::int64_t image_size() const { return channels * height * width; }
  std::int64_t output_size() const { return out_channels * positions(); }
  std::int64_t padded_height() const { return height + 2 * geometry.padding[0]; }
  std::int64_t padded_width() const { return width + 2 * geometry.padding[1]; }
  bool is_padded() const { return geometry.padding[0] > 0 || geometry.padding[1] > 0; }
  std::int64_t padded_size() const { return channels * padded_height() * padded_width(); }
  std::int64_t taps() const { return channels * kernel_height * kernel_width; }
  std::int64_t positions() const { return out_height * out_width; }
};

/// Writes what each tap of the kernel sees of one image: row (channel, r, s) of `columns` holds positions() elements,
/// zeros where the tap lies in the padding; rows are `row_length` apart. `padded` has room for padded_size() elements.
template <class T>
void image_to_columns(const ConvolutionSizes&, const T* image, T* padded, T* columns, std::int64_t row_length);

/// The transpose of `image_to_columns`: each element of the image becomes the sum of all that were read from it.
template <class T>
void columns_to_image(const ConvolutionSizes&, const T* columns, std::int64_t row_length, T* padded, T* image);

}  // namespace tutti
