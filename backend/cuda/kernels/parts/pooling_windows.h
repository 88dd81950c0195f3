// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/cuda/kernels/parts/strided_axes.h>

namespace tutti::cuda_kernels {

struct Span {
  std::int64_t begin;
  std::int64_t end;
};

/// One axis of images and of what they are pooled to.
struct PooledAxis {
  std::int64_t length;
  std::int64_t out_length;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;

  /// The part of window `i` that lies inside the image.
  TUTTI_HOST_DEVICE Span window(std::int64_t i) const {
    const std::int64_t begin = i * stride - padding;
    const std::int64_t end = begin + kernel;
    return {begin > 0 ? begin : 0, end < length ? end : length};
  }

  /// How many elements of window `i` count in a mean: all, or those inside the image.
  TUTTI_HOST_DEVICE std::int64_t counted(std::int64_t i, bool count_include_pad) const {
    if (count_include_pad) return kernel;
    const Span inside = window(i);
    return inside.end - inside.begin;
  }

  /// The windows that an element lies in.
  TUTTI_HOST_DEVICE Span windows_over(std::int64_t element) const {
    const std::int64_t reach = element + padding;
    const std::int64_t begin = reach < kernel ? 0 : divide(reach - kernel, stride).quotient + 1;
    const std::int64_t end = divide(reach, stride).quotient + 1;
    return {begin, end < out_length ? end : out_length};
  }
};

/// Images [planes, rows, columns].
struct Pooling {
  std::int64_t planes;
  PooledAxis rows;
  PooledAxis columns;

  TUTTI_HOST_DEVICE std::int64_t elements() const { return rows.length * columns.length; }  // size of a plane
  TUTTI_HOST_DEVICE std::int64_t windows() const { return rows.out_length * columns.out_length; }
};

struct MeanPooling {
  Pooling windows;
  bool count_include_pad;
};

/// The largest element so far, and where it stood: the first of equals, and NaN wins.
template <class T> struct LargestElement {
  T value;
  std::int64_t place;

  TUTTI_HOST_DEVICE void offer(T other, std::int64_t at) {
    const bool wins = other > value || (other != other && value == value);
    value = wins ? other : value;
    place = wins ? at : place;
  }
};

/// The largest element of window (row, column) of a plane.
template <class T> TUTTI_HOST_DEVICE LargestElement<T> largest_in_window(const Pooling& pooling, const T* plane,
                                                                         std::int64_t row, std::int64_t column) {
  const Span rows = pooling.rows.window(row);
  const Span columns = pooling.columns.window(column);
  const std::int64_t width = pooling.columns.length;
  const std::int64_t first = rows.begin * width + columns.begin;
  LargestElement<T> largest{plane[first], first};
  for (std::int64_t y = rows.begin; y < rows.end; ++y)
    for (std::int64_t x = columns.begin; x < columns.end; ++x) largest.offer(plane[y * width + x], y * width + x);
  return largest;
}

/// The sum of what windows that chose element (row, column) of a plane pass back to it, in their order.
template <class T> TUTTI_HOST_DEVICE T passed_back(const Pooling& pooling, const T* gradient,
                                                   const std::int64_t* places, std::int64_t row, std::int64_t column) {
  const Span rows = pooling.rows.windows_over(row);
  const Span columns = pooling.columns.windows_over(column);
  const std::int64_t place = row * pooling.columns.length + column;
  T sum(0);
  for (std::int64_t y = rows.begin; y < rows.end; ++y)
    for (std::int64_t x = columns.begin; x < columns.end; ++x) {
      const std::int64_t window = y * pooling.columns.out_length + x;
      if (places[window] == place) sum += gradient[window];
    }
  return sum;
}

/// The mean of window (row, column) of a plane.
template <class T>
TUTTI_HOST_DEVICE T mean_of_window(const MeanPooling& means, const T* plane, std::int64_t row, std::int64_t column) {
  const Pooling& pooling = means.windows;
  const Span rows = pooling.rows.window(row);
  const Span columns = pooling.columns.window(column);
  T sum(0);
  for (std::int64_t y = rows.begin; y < rows.end; ++y)
    for (std::int64_t x = columns.begin; x < columns.end; ++x) sum += plane[y * pooling.columns.length + x];
  const std::int64_t count =
      pooling.rows.counted(row, means.count_include_pad) * pooling.columns.counted(column, means.count_include_pad);
  return sum / static_cast<T>(count);
}

/// The sum of element (row, column)'s shares in the gradients of the windows over it, in their order.
template <class T> TUTTI_HOST_DEVICE T shares_passed_back(const MeanPooling& means, const T* gradient, std::int64_t row,
                                                          std::int64_t column) {
  const Pooling& pooling = means.windows;
  const Span rows = pooling.rows.windows_over(row);
  const Span columns = pooling.columns.windows_over(column);
  T sum(0);
  for (std::int64_t y = rows.begin; y < rows.end; ++y) {
    const std::int64_t height = pooling.rows.counted(y, means.count_include_pad);
#ifdef __CUDA_ARCH__
#pragma unroll 1  // unrolled, divisions leave too few registers
#endif
    for (std::int64_t x = columns.begin; x < columns.end; ++x) {
      const std::int64_t count = height * pooling.columns.counted(x, means.count_include_pad);
      sum += gradient[y * pooling.columns.out_length + x] / static_cast<T>(count);
    }
  }
  return sum;
}

}  // namespace tutti::cuda_kernels
