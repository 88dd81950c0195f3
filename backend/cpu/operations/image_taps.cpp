// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/operations/image_taps.h>

#include <tutti/backend/cpu/linear_algebra/packing.h>
#include <tutti/backend/cpu/packs/native_vector.h>
#include <tutti/backend/cpu/packs/wide_lanes.h>

#include <algorithm>
#include <array>

namespace tutti {
namespace {

/// A vector of what a tap sees, and its place in the strip's row.
struct VectorCopy {
  std::int64_t from;
  std::int64_t to;
};

/// The copies that make a row of a strip, in order: up to a vector more than there is is read and written.
template <class S> struct RowCopies {
  using T = ComputedIn<S>;

  std::array<VectorCopy, packing::kMostStripColumns<T>> each;
  std::size_t count = 0;

  void add(std::int64_t from, std::int64_t to, std::int64_t length) {
    for (std::int64_t i = 0; i < length; i += kNativeLanes<T>) each[count++] = {from + i, to + i};
  }
  template <std::size_t known> void apply(const S* from, T* to) const {
    for (std::size_t i = 0; i < known; ++i) native_store<T>(load_wide(from + each[i].from), to + each[i].to);
  }
};

}  // namespace

template <class S> template <class F>
void ImageTaps<S>::for_each_run(std::int64_t position, std::int64_t count, const F& f) const {
  const std::int64_t of_image = size_.positions();
  const auto& stride = size_.geometry.stride;
  while (count > 0) {
    const std::int64_t image = position / of_image;
    const std::int64_t y = position % of_image / size_.out_width;
    const std::int64_t x = position % size_.out_width;
    const std::int64_t length = std::min(count, size_.out_width - x);
    f(image * image_step_ + y * stride[0] * size_.padded_width() + x * stride[1], length);
    position += length;
    count -= length;
  }
}

template <class S> template <class F>
void ImageTaps<S>::for_each_tap(std::int64_t first, std::int64_t count, const F& f) const {
  const std::int64_t width = size_.kernel_width;
  const std::int64_t height = size_.kernel_height;
  const std::int64_t row_step = size_.geometry.dilation[0] * size_.padded_width();
  std::int64_t s = first % width;
  std::int64_t r = first / width % height;
  const S* plane = padded_ + first / width / height * (size_.padded_height() * size_.padded_width());
  for (std::int64_t i = 0; i < count; ++i) {
    f(plane + r * row_step + s * size_.geometry.dilation[1]);
    if (++s < width) continue;
    s = 0;
    if (++r < height) continue;
    r = 0;
    plane += size_.padded_height() * size_.padded_width();
  }
}

template <class S> void ImageTaps<S>::pack(const StripPart& part, ComputedIn<S>* to) const {
  using T = ComputedIn<S>;
  if (size_.geometry.stride[1] > 1) return pack_apart(part, to);
  RowCopies<S> copies;
  std::int64_t place = 0;
  for_each_run(part.column, part.columns, [&](std::int64_t from, std::int64_t length) {
    copies.add(from, place, length);
    place += length;
  });
  // A loop whose length is known keeps the places in registers.
  const auto pack_rows = [&]<std::size_t known>() {
    for_each_tap(part.step, part.steps, [&](const S* seen) {
      copies.template apply<known>(seen, to);
      to += part.width;
    });
  };
  switch (copies.count) {
    case 1: return pack_rows.template operator()<1>();
    case 2: return pack_rows.template operator()<2>();
    case 3: return pack_rows.template operator()<3>();
    case 4: return pack_rows.template operator()<4>();
    case 5: return pack_rows.template operator()<5>();
    case 6: return pack_rows.template operator()<6>();
    default:
      for_each_tap(part.step, part.steps, [&](const S* seen) {
        for (std::size_t i = 0; i < copies.count; ++i)
          native_store<T>(load_wide(seen + copies.each[i].from), to + copies.each[i].to);
        to += part.width;
      });
  }
}

template <class S> void ImageTaps<S>::pack_apart(const StripPart& part, ComputedIn<S>* to) const {
  using T = ComputedIn<S>;
  std::array<std::int64_t, packing::kMostStripColumns<T>> places;
  std::size_t count = 0;
  for_each_run(part.column, part.columns, [&](std::int64_t from, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) places[count++] = from + i * size_.geometry.stride[1];
  });
  for_each_tap(part.step, part.steps, [&](const S* seen) {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(seen[places[i]]);
    to += part.width;
  });
}

template <class S> void ImageTaps<S>::pack_turned(const StripPart& part, ComputedIn<S>* to) const {
  using T = ComputedIn<S>;
  constexpr std::int64_t kLanes = packing::kQuadLanes<T>;
  std::array<const S*, packing::kMostStripColumns<T>> taps;
  std::size_t tap_count = 0;
  for_each_tap(part.column, part.columns, [&](const S* seen) { taps[tap_count++] = seen; });
  const std::int64_t stride = size_.geometry.stride[1];
  const std::int64_t squares = stride == 1 ? part.columns - part.columns % kLanes : 0;
  for_each_run(part.step, part.steps, [&](std::int64_t from, std::int64_t length) {
    const auto copy = [&](std::int64_t tap, std::int64_t begin) {
      const S* const seen = taps[static_cast<std::size_t>(tap)] + from;
      for (std::int64_t k = begin; k < length; ++k) to[k * part.width + tap] = static_cast<T>(seen[k * stride]);
    };
    for (std::int64_t i = 0; i < squares; i += kLanes) {
      std::int64_t k = 0;
      for (; k + kLanes <= length; k += kLanes) {
        const S* rows[kLanes];
        for (std::int64_t each = 0; each < kLanes; ++each)
          rows[each] = taps[static_cast<std::size_t>(i + each)] + from + k;
        packing::turn_square<S>(rows, to + k * part.width + i, part.width);
      }
      for (std::int64_t each = 0; each < kLanes && k < length; ++each) copy(i + each, k);
    }
    for (std::int64_t i = squares; i < part.columns; ++i) copy(i, 0);
    to += length * part.width;
  });
}

template class ImageTaps<float>;
template class ImageTaps<double>;
template class ImageTaps<BFloat16>;
template class ImageTaps<Float16>;

}  // namespace tutti
