// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/packs/even_odd.h>
#include <tutti/backend/cpu/packs/pack_loops.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tutti {
namespace {

/// Images [planes, height, width] pooled to [planes, out_height, out_width].
struct PoolingSizes {
  std::int64_t planes;
  std::int64_t height;
  std::int64_t width;
  std::int64_t out_height;
  std::int64_t out_width;

  PoolingSizes(const Shape& input, const Shape& output)
      : planes(input[0] * input[1]), height(input[2]), width(input[3]), out_height(output[2]), out_width(output[3]) {}

  std::int64_t in_plane() const { return height * width; }
  std::int64_t out_plane() const { return out_height * out_width; }
  std::int64_t grain() const { return std::max<std::int64_t>(1, 16384 / in_plane()); }
};

/// The part of window `i` along one axis that lies inside the image.
struct Window {
  std::int64_t begin;
  std::int64_t end;

  Window(std::int64_t i, const Pool2dGeometry& geometry, std::size_t axis, std::int64_t length)
      : begin(i * geometry.stride[axis] - geometry.padding[axis]),
        end(std::min(begin + geometry.kernel[axis], length)) {
    begin = std::max<std::int64_t>(begin, 0);
  }
};

/// The largest element so far, and where it stood: the first of equals, and NaN wins.
template <class T> struct Largest {
  T value;
  std::int64_t place;

  void offer(T other, std::int64_t at) {
    const bool wins = other > value || (other != other && value == value);
    value = wins ? other : value;
    place = wins ? at : place;
  }
};

template <class T>
Largest<T> largest_of(const T* plane, std::int64_t width, const Window& rows, const Window& columns) {
  const std::int64_t first = rows.begin * width + columns.begin;
  Largest<T> largest{plane[first], first};
  for (std::int64_t y = rows.begin; y < rows.end; ++y)
    for (std::int64_t x = columns.begin; x < columns.end; ++x) largest.offer(plane[y * width + x], y * width + x);
  return largest;
}

template <class T> void pool_plane(const Pool2dGeometry& geometry, const PoolingSizes& size, const T* plane, T* maxima,
                                   std::int64_t* places) {
  for (std::int64_t y = 0; y < size.out_height; ++y) {
    const Window rows(y, geometry, 0, size.height);
    for (std::int64_t x = 0; x < size.out_width; ++x) {
      const Largest<T> largest = largest_of(plane, size.width, rows, Window(x, geometry, 1, size.width));
      *maxima++ = largest.value;
      *places++ = largest.place;
    }
  }
}

/// `Largest` in each lane, of windows side by side; places are counted from the windows' first element.
template <class T> struct LargestLanes {
  using Places = Native<MaskLane<T>>;
  Native<T> value;
  Places place{};

  TUTTI_ALWAYS_INLINE void offer(const Native<T>& other, std::int64_t at) {
    const Places wins = (other > value) | ((other != other) & (value == value));
    value = wins ? other : value;
    place = wins ? static_cast<MaskLane<T>>(at) - Places{} : place;
  }
};

/// The first `count` elements of two vectors in memory, zeros behind them, which are not read.
template <class T> TUTTI_ALWAYS_INLINE EvenOdd<T> every_other(const T* from, std::int64_t count) {
  constexpr std::int64_t kLanes = kNativeLanes<T>;
  if (count >= 2 * kLanes) return {native_load(from), native_load(from + kLanes)};
  return {native_load_first<T>(from, count),
          count > kLanes ? native_load_first<T>(from + kLanes, count - kLanes) : Native<T>{}};
}

/// The usual case: windows of 2 x 2, side by side. `first` is the place of `top` in its plane.
template <class T> void halve_rows(const T* top, const T* bottom, std::int64_t first, std::int64_t count, T* maxima,
                                   std::int64_t* places) {
  constexpr std::int64_t kLanes = kNativeLanes<T>;
  for (std::int64_t x = 0; x < count; x += kLanes) {
    const std::int64_t lanes = std::min(kLanes, count - x);
    const EvenOdd<T> above = every_other(top + 2 * x, 2 * lanes);
    const EvenOdd<T> below = every_other(bottom + 2 * x, 2 * lanes);
    LargestLanes<T> largest{above.even};
    largest.offer(above.odd, 1);
    largest.offer(below.even, bottom - top);
    largest.offer(below.odd, bottom - top + 1);
    std::int64_t place[kLanes];
    for (std::int64_t i = 0; i < kLanes; ++i) place[i] = first + 2 * (x + i) + largest.place[i];
    if (lanes == kLanes) {
      native_store<T>(largest.value, maxima + x);
      std::copy_n(place, kLanes, places + x);
    } else {
      native_store_first<T>(largest.value, maxima + x, lanes);
      std::copy_n(place, lanes, places + x);
    }
  }
}

template <class T> void halve_plane(const PoolingSizes& size, const T* plane, T* maxima, std::int64_t* places) {
  for (std::int64_t y = 0; y < size.out_height; ++y) {
    const std::int64_t first = 2 * y * size.width;
    halve_rows(plane + first, plane + first + size.width, first, size.out_width, maxima + y * size.out_width,
               places + y * size.out_width);
  }
}

constexpr std::int64_t kMostOfHalves = std::int64_t{1} << 30U;  // columns, of which a lane of f32 holds the number

bool halves(const Pool2dGeometry& geometry) {
  constexpr std::array<std::int64_t, 2> kTwo{2, 2};
  return geometry.kernel == kTwo && geometry.stride == kTwo && geometry.padding == std::array<std::int64_t, 2>{0, 0};
}

/// Calls `f(window, rows, columns, divisor)` for the windows of a plane, with the parts of them inside the image.
template <class T, class F>
void for_each_window(const AvgPool2dGeometry& geometry, const PoolingSizes& size, const F& f) {
  const Pool2dGeometry windows = geometry.windows();
  const std::int64_t whole = geometry.kernel[0] * geometry.kernel[1];
  for (std::int64_t y = 0; y < size.out_height; ++y) {
    const Window rows(y, windows, 0, size.height);
    for (std::int64_t x = 0; x < size.out_width; ++x) {
      const Window columns(x, windows, 1, size.width);
      const std::int64_t inside = (rows.end - rows.begin) * (columns.end - columns.begin);
      f(y * size.out_width + x, rows, columns, static_cast<T>(geometry.count_include_pad ? whole : inside));
    }
  }
}

template <class T>
void average_plane(const AvgPool2dGeometry& geometry, const PoolingSizes& size, const T* plane, T* means) {
  const auto average = [&](std::int64_t window, const Window& rows, const Window& columns, T divisor) {
    T sum(0);
    for (std::int64_t y = rows.begin; y < rows.end; ++y)
      for (std::int64_t x = columns.begin; x < columns.end; ++x) sum += plane[y * size.width + x];
    means[window] = sum / divisor;
  };
  for_each_window<T>(geometry, size, average);
}

template <class T>
void spread_plane(const AvgPool2dGeometry& geometry, const PoolingSizes& size, const T* gradient, T* plane) {
  std::fill_n(plane, size.height * size.width, T(0));
  const auto spread = [&](std::int64_t window, const Window& rows, const Window& columns, T divisor) {
    const T share = gradient[window] / divisor;
    for (std::int64_t y = rows.begin; y < rows.end; ++y)
      for (std::int64_t x = columns.begin; x < columns.end; ++x) plane[y * size.width + x] += share;
  };
  for_each_window<T>(geometry, size, spread);
}

}  // namespace

void CpuBackend::max_pool2d(const Pool2dGeometry& geometry, const Array& input, const Array& output,
                            const Array& index) {
  const auto work = [geometry, &pool = threads(output.device())](const Array& from, const Array& to,
                                                                 const Array& places) {
    const PoolingSizes size(from.shape(), to.shape());
    visit_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      pool.parallel_for(size.planes, size.grain(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          const std::int64_t out = p * size.out_plane();
          const T* plane = from.data<T>() + p * size.in_plane();
          if (halves(geometry) && size.width < kMostOfHalves)
            halve_plane(size, plane, to.data<T>() + out, places.data<std::int64_t>() + out);
          else
            pool_plane(geometry, size, plane, to.data<T>() + out, places.data<std::int64_t>() + out);
        }
      });
    });
  };
  stream(output.device()).launch("max_pool2d", work, input, output, index);
}

void CpuBackend::max_pool2d_gradient(const Pool2dGeometry&, const Array& gradient, const Array& index,
                                     const Array& input_gradient) {
  const auto work = [&pool = threads(gradient.device())](const Array& from, const Array& places, const Array& to) {
    const PoolingSizes size(to.shape(), from.shape());
    visit_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      pool.parallel_for(size.planes, size.grain(), [&](std::int64_t begin, std::int64_t end) {
        const T* upstream = from.data<T>();
        const std::int64_t* place = places.data<std::int64_t>();
        for (std::int64_t p = begin; p < end; ++p) {
          T* plane = to.data<T>() + p * size.in_plane();
          std::fill_n(plane, size.in_plane(), T(0));
          for (std::int64_t i = p * size.out_plane(); i < (p + 1) * size.out_plane(); ++i)
            plane[place[i]] += upstream[i];
        }
      });
    });
  };
  stream(gradient.device()).launch("max_pool2d_gradient", work, gradient, index, input_gradient);
}

void CpuBackend::avg_pool2d(const AvgPool2dGeometry& geometry, const Array& input, const Array& output) {
  const auto work = [geometry, &pool = threads(output.device())](const Array& from, const Array& to) {
    const PoolingSizes size(from.shape(), to.shape());
    visit_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      pool.parallel_for(size.planes, size.grain(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p)
          average_plane(geometry, size, from.data<T>() + p * size.in_plane(), to.data<T>() + p * size.out_plane());
      });
    });
  };
  stream(output.device()).launch("avg_pool2d", work, input, output);
}

void CpuBackend::avg_pool2d_gradient(const AvgPool2dGeometry& geometry, const Array& gradient,
                                     const Array& input_gradient) {
  const auto work = [geometry, &pool = threads(gradient.device())](const Array& from, const Array& to) {
    const PoolingSizes size(to.shape(), from.shape());
    visit_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      pool.parallel_for(size.planes, size.grain(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p)
          spread_plane(geometry, size, from.data<T>() + p * size.out_plane(), to.data<T>() + p * size.in_plane());
      });
    });
  };
  stream(gradient.device()).launch("avg_pool2d_gradient", work, gradient, input_gradient);
}

}  // namespace tutti
