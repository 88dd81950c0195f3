// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/convolution/image_columns.h>

#include <tutti/backend/dtype.h>

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

/// Rows of `width` elements in two places.
struct Rows {
  std::int64_t count;
  std::int64_t width;
  std::int64_t image_step;    // between rows of the image
  std::int64_t image_stride;  // between elements of a row
  std::int64_t column_step;   // between rows in the columns
};

/// What is done with elements of an image and those of the columns, or of the image in its padding.
struct Copy {
  template <class T> static void apply(T* image, T* column, std::int64_t count) { std::copy_n(image, count, column); }
};
struct CopyBack {
  template <class T> static void apply(T* image, T* column, std::int64_t count) { std::copy_n(column, count, image); }
};
struct Add {
  template <class T> static void apply(T* __restrict image, T* __restrict column, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) image[i] += column[i];
  }
};

template <class Action, class T, std::int64_t... width>
bool apply_known_width(const Rows& rows, T* __restrict image, T* __restrict column,
                       std::integer_sequence<std::int64_t, width...>) {
  const auto apply = [&]<std::int64_t known>() {
    for (std::int64_t y = 0; y < rows.count; ++y)
      Action::apply(image + y * rows.image_step, column + y * rows.column_step, known);
    return true;
  };
  return ((rows.width == width && apply.template operator()<width>()) || ...);
}

/// Rows are short, so that common widths, known to the compiler, are worth several times those found at run time.
template <class Action, class T> void apply_to_rows(const Rows& rows, T* image, T* column) {
  using Known = std::integer_sequence<std::int64_t, 4, 7, 8, 14, 16, 28, 32>;
  if (rows.image_stride == 1 && apply_known_width<Action>(rows, image, column, Known())) return;
  for (std::int64_t y = 0; y < rows.count; ++y)
    for (std::int64_t x = 0; x < rows.width; ++x)
      Action::apply(image + y * rows.image_step + x * rows.image_stride, column + y * rows.column_step + x, 1);
}

/// Calls Action for what each tap sees of a padded image.
template <class Action, class T>
void apply_to_taps(const ConvolutionSizes& size, T* padded, T* columns, std::int64_t row_length) {
  const Conv2dGeometry& geometry = size.geometry;
  const std::int64_t width = size.padded_width();
  const Rows rows{size.out_height, size.out_width, geometry.stride[0] * width, geometry.stride[1], size.out_width};
  for (std::int64_t channel = 0; channel < size.channels; ++channel)
    for (std::int64_t r = 0; r < size.kernel_height; ++r)
      for (std::int64_t s = 0; s < size.kernel_width; ++s) {
        const std::int64_t y = channel * size.padded_height() + r * geometry.dilation[0];
        apply_to_rows<Action>(rows, padded + y * width + s * geometry.dilation[1], columns);
        columns += row_length;
      }
}

/// Calls Action for the elements of an image and their places in the padded one.
template <class Action, class T> void apply_to_inside(const ConvolutionSizes& size, T* padded, T* image) {
  const Rows rows{size.height, size.width, size.padded_width(), 1, size.width};
  for (std::int64_t channel = 0; channel < size.channels; ++channel) {
    const std::int64_t y = channel * size.padded_height() + size.geometry.padding[0];
    apply_to_rows<Action>(rows, padded + y * size.padded_width() + size.geometry.padding[1],
                          image + channel * size.height * size.width);
  }
}

}  // namespace

template <class T> void pad_image(const ConvolutionSizes& size, const T* image, T* padded) {
  if (size.is_padded()) std::fill_n(padded, size.padded_size(), T{});
  apply_to_inside<CopyBack>(size, padded, const_cast<T*>(image));  // which is only read
}

template <class T>
void columns_to_image(const ConvolutionSizes& size, const T* columns, std::int64_t row_length, T* padded, T* image) {
  T* const target = size.is_padded() ? padded : image;
  std::fill_n(target, size.padded_size(), T(0));
  apply_to_taps<Add>(size, target, const_cast<T*>(columns), row_length);  // the columns are only read
  if (size.is_padded()) apply_to_inside<Copy>(size, padded, image);
}

template void pad_image(const ConvolutionSizes&, const float*, float*);
template void pad_image(const ConvolutionSizes&, const double*, double*);
template void pad_image(const ConvolutionSizes&, const BFloat16*, BFloat16*);
template void pad_image(const ConvolutionSizes&, const Float16*, Float16*);
template void columns_to_image(const ConvolutionSizes&, const float*, std::int64_t, float*, float*);
template void columns_to_image(const ConvolutionSizes&, const double*, std::int64_t, double*, double*);

}  // namespace tutti
