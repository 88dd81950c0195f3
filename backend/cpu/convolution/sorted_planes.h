// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/convolution/image_columns.h>

namespace tutti {

/// How the padded channels of an image lie where the elements that one tap reads in a row are to be neighbours,
/// whatever the stride: the columns of a row are sorted by their remainder by the stride ("phase"), then by their
/// place.
struct SortedPlanes {
  std::int64_t channels;
  std::int64_t rows;
  std::int64_t phases;
  std::int64_t phase_length;
  static constexpr std::int64_t kSlack = 64;  // elements behind the last that may be read, as whole packs are

  explicit SortedPlanes(const ConvolutionSizes& size)
      : channels(size.channels),
        rows(size.padded_height()),
        phases(size.geometry.stride[1]),
        phase_length((size.padded_width() + phases - 1) / phases) {}

  std::int64_t row_length() const { return phases * phase_length; }
  std::int64_t offset(std::int64_t channel, std::int64_t row, std::int64_t column) const {
    return (channel * rows + row) * row_length() + column % phases * phase_length + column / phases;
  }
  std::int64_t elements() const { return channels * rows * row_length() + kSlack; }
};

/// The columns of an image, without padding, that are in one phase: first, first + stride, ...
struct PhaseColumns {
  std::int64_t first;  // first of these columns, in the image
  std::int64_t place;  // place of the first column in the phase
  std::int64_t count;

  PhaseColumns(const ConvolutionSizes& size, std::int64_t phase) {
    const std::int64_t stride = size.geometry.stride[1];
    const std::int64_t padding = size.geometry.padding[1];
    first = ((phase - padding) % stride + stride) % stride;
    place = (first + padding) / stride;
    count = first < size.width ? (size.width - first - 1) / stride + 1 : 0;
  }
};

}  // namespace tutti
