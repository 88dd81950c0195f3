// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/image_columns.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The outputs along one axis whose tap at `shift` (which may be negative) lies inside the image.
struct Inside {
  std::int64_t begin;
  std::int64_t end;

  Inside(std::int64_t shift, std::int64_t stride, std::int64_t length, std::int64_t outputs)
      : begin(shift < 0 ? std::min(outputs, divide_up(-shift, stride)) : 0),
        end(shift >= length ? begin : std::clamp(divide_up(length - shift, stride), begin, outputs)) {}
};

/// Calls `f(channel, tap_row, y_shift, x_shift)` for each tap of the kernel.
template <class F> void for_each_tap(const ConvolutionSizes& size, const Conv2dGeometry& geometry, F&& f) {
  std::int64_t tap = 0;
  for (std::int64_t channel = 0; channel < size.channels; ++channel)
    for (std::int64_t r = 0; r < size.kernel_height; ++r)
      for (std::int64_t s = 0; s < size.kernel_width; ++s)
        f(channel, tap++, r * geometry.dilation[0] - geometry.padding[0],
          s * geometry.dilation[1] - geometry.padding[1]);
}

/// A loop, since a call of memcpy costs more than the few elements of a row.
template <class T> inline void copy_row(const T* from, std::int64_t stride, T* to, std::int64_t count) {
  if (stride == 1)
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
  else
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

}  // namespace

template <class T> void image_to_columns(const ConvolutionSizes& size, const Conv2dGeometry& geometry, const T* image,
                                         T* columns, std::int64_t row_length) {
  for_each_tap(size, geometry, [&](std::int64_t channel, std::int64_t tap, std::int64_t y_shift, std::int64_t x_shift) {
    const Inside rows(y_shift, geometry.stride[0], size.height, size.out_height);
    const Inside inside(x_shift, geometry.stride[1], size.width, size.out_width);
    T* to = columns + tap * row_length;
    std::fill(to, to + rows.begin * size.out_width, T(0));
    std::fill(to + rows.end * size.out_width, to + size.positions(), T(0));
    for (std::int64_t y = rows.begin; y < rows.end; ++y) {
      T* row = to + y * size.out_width;
      const T* from = image + (channel * size.height + y * geometry.stride[0] + y_shift) * size.width;
      for (std::int64_t x = 0; x < inside.begin; ++x) row[x] = T(0);
      copy_row(from + inside.begin * geometry.stride[1] + x_shift, geometry.stride[1], row + inside.begin,
               inside.end - inside.begin);
      for (std::int64_t x = inside.end; x < size.out_width; ++x) row[x] = T(0);
    }
  });
}

template <class T> void add_columns_to_image(const ConvolutionSizes& size, const Conv2dGeometry& geometry,
                                             const T* columns, std::int64_t row_length, T* image) {
  for_each_tap(size, geometry, [&](std::int64_t channel, std::int64_t tap, std::int64_t y_shift, std::int64_t x_shift) {
    const Inside rows(y_shift, geometry.stride[0], size.height, size.out_height);
    const Inside inside(x_shift, geometry.stride[1], size.width, size.out_width);
    const std::int64_t step = geometry.stride[1];
    const std::int64_t count = inside.end - inside.begin;
    for (std::int64_t y = rows.begin; y < rows.end; ++y) {
      const T* from = columns + tap * row_length + y * size.out_width + inside.begin;
      T* to = image + (channel * size.height + y * geometry.stride[0] + y_shift) * size.width + inside.begin * step +
              x_shift;
      if (step == 1)
        for (std::int64_t x = 0; x < count; ++x) to[x] += from[x];
      else
        for (std::int64_t x = 0; x < count; ++x) to[x * step] += from[x];
    }
  });
}

template void image_to_columns(const ConvolutionSizes&, const Conv2dGeometry&, const float*, float*, std::int64_t);
template void image_to_columns(const ConvolutionSizes&, const Conv2dGeometry&, const double*, double*, std::int64_t);
template void add_columns_to_image(const ConvolutionSizes&, const Conv2dGeometry&, const float*, std::int64_t, float*);
template void add_columns_to_image(const ConvolutionSizes&, const Conv2dGeometry&, const double*, std::int64_t,
                                   double*);

}  // namespace tutti
