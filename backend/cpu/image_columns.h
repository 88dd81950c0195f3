// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/kernel_arguments.h>
#include <tutti/backend/shape.h>

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

  ConvolutionSizes(const Shape& input, const Shape& weight, const Shape& output)
      : images(input[0]),
        channels(input[1]),
        height(input[2]),
        width(input[3]),
        out_channels(weight[0]),
        kernel_height(weight[2]),
        kernel_width(weight[3]),
        out_height(output[2]),
        out_width(output[3]) {}

  std::int64_t image_size() const { return channels * height * width; }
  std::int64_t taps() const { return channels * kernel_height * kernel_width; }
  std::int64_t positions() const { return out_height * out_width; }
};

/// Writes what each tap of the kernel sees of one image: row (channel, r, s) of `columns` holds positions() elements,
/// zeros where the tap lies in the padding; rows are `row_length` apart.
template <class T> void image_to_columns(const ConvolutionSizes&, const Conv2dGeometry&, const T* image, T* columns,
                                         std::int64_t row_length);

/// The transpose of `image_to_columns`: adds each element of `columns` where it was read from.
template <class T> void add_columns_to_image(const ConvolutionSizes&, const Conv2dGeometry&, const T* columns,
                                             std::int64_t row_length, T* image);

}  // namespace tutti
