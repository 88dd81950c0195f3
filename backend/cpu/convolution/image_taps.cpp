// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/convolution/image_taps.h>

#include <tutti/backend/cpu/linear_algebra/packing.h>
#include <tutti/backend/cpu/packs/native_vector.h>
#include <tutti/backend/cpu/packs/wide_lanes.h>

#include <algorithm>
#include <array>
#include <cstring>

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
  /// `known`: the count, or 0. A loop whose length is known keeps the places in registers.
  template <std::size_t known> void apply(const S* from, const S*, T* to) const {
    for (std::size_t i = 0; i < (known > 0 ? known : count); ++i)
      native_store<T>(load_wide(from + each[i].from), to + each[i].to);
  }
  template <std::size_t known> void apply(const S* lower, const S* upper, std::int32_t* to) const {
    for (std::size_t i = 0; i < (known > 0 ? known : count); ++i)
      native_store<std::int32_t>(upper == nullptr ? shorts(lower + each[i].from)
                                                  : shorts(lower + each[i].from) | shorts(upper + each[i].from) << 16,
                                 to + each[i].to);
  }

 private:
  TUTTI_ALWAYS_INLINE static Native<std::int32_t> shorts(const S* from) {
    return __builtin_convertvector(wide_lanes::load_shorts(from), Native<std::int32_t>);
  }
};

/// One packed element.
template <class S> void join(const S* element, const S*, ComputedIn<S>* to) {
  *to = static_cast<ComputedIn<S>>(*element);
}
void join(const BFloat16* lower, const BFloat16* upper, std::int32_t* to) {
  *to =
      static_cast<std::int32_t>(lower->bits | (upper == nullptr ? 0U : static_cast<std::uint32_t>(upper->bits) << 16U));
}

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

template <class S> template <class Packed, class F>
void ImageTaps<S>::for_each_row(const StripPart& part, const F& f) const {
  if constexpr (std::is_same_v<Packed, ComputedIn<S>>) {
    for_each_tap(part.step, part.steps, [&](const S* seen) { f(seen, nullptr); });
  } else {
    const S* lower = nullptr;
    for_each_tap(part.step, part.steps, [&](const S* seen) {
      if (lower == nullptr) {
        lower = seen;
      } else {
        f(lower, seen);
        lower = nullptr;
      }
    });
    if (lower != nullptr) f(lower, nullptr);
  }
}

template <class S> template <class Packed> void ImageTaps<S>::pack(const StripPart& part, Packed* to) const {
  if (size_.geometry.stride[1] > 1) {  // one by one
    std::array<std::int64_t, packing::kMostStripColumns<ComputedIn<S>>> places;
    std::size_t count = 0;
    for_each_run(part.column, part.columns, [&](std::int64_t from, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i) places[count++] = from + i * size_.geometry.stride[1];
    });
    return for_each_row<Packed>(part, [&](const S* first, const S* second) {
      for (std::size_t i = 0; i < count; ++i)
        join(first + places[i], second == nullptr ? nullptr : second + places[i], to + i);
      to += part.width;
    });
  }
  RowCopies<S> copies;
  std::int64_t place = 0;
  for_each_run(part.column, part.columns, [&](std::int64_t from, std::int64_t length) {
    copies.add(from, place, length);
    place += length;
  });
  const auto pack_rows = [&]<std::size_t known>() {
    for_each_row<Packed>(part, [&](const S* first, const S* second) {
      copies.template apply<known>(first, second, to);
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
    default: return pack_rows.template operator()<0>();
  }
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

// As many pairs as a quad holds are turned at once where they follow each other in memory, or two and two do.
template <class S> void ImageTaps<S>::pack_turned(const StripPart& part, std::int32_t* to) const
  requires std::is_same_v<S, BFloat16>
{
  constexpr std::int64_t kLanes = packing::kQuadLanes<std::int32_t>;
  std::array<const S*, packing::kMostStripColumns<float>> taps;
  std::size_t tap_count = 0;
  for_each_tap(part.column, part.columns, [&](const S* seen) { taps[tap_count++] = seen; });
  std::array<std::int64_t, StripPart::kMostSteps> places;  // of positions
  std::size_t steps = 0;
  for_each_run(part.step, part.steps, [&](std::int64_t from, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) places[steps++] = from + i * size_.geometry.stride[1];
  });
  const auto follow = [&](std::size_t step, std::size_t count) {
    return places[step + count - 1] - places[step] == static_cast<std::int64_t>(count) - 1;
  };
  for (std::size_t step = 0; step < steps; to += kLanes * part.width) {
    const std::size_t count = std::min<std::size_t>(2 * kLanes, steps - step);
    const bool turns = count == 2 * kLanes && follow(step, kLanes) && follow(step + kLanes, kLanes);
    const std::size_t squares = turns ? tap_count - tap_count % kLanes : 0;
    for (std::size_t tap = 0; tap < squares; tap += kLanes) {
      packing::Quad<std::int32_t>::type rows[kLanes];
      for (std::size_t i = 0; i < kLanes; ++i) {
        std::memcpy(&rows[i], taps[tap + i] + places[step], sizeof(rows[i]) / 2);
        std::memcpy(reinterpret_cast<std::byte*>(&rows[i]) + sizeof(rows[i]) / 2, taps[tap + i] + places[step + kLanes],
                    sizeof(rows[i]) / 2);
      }
      packing::turn_quads<std::int32_t>(rows, to + tap, part.width);
    }
    for (std::size_t tap = squares; tap < tap_count; ++tap)
      for (std::size_t i = 0; i < count; i += 2)
        join(taps[tap] + places[step + i], i + 1 < count ? taps[tap] + places[step + i + 1] : nullptr,
             to + static_cast<std::int64_t>(i / 2) * part.width + tap);
    step += count;
  }
}

template class ImageTaps<float>;
template class ImageTaps<double>;
template class ImageTaps<BFloat16>;
template class ImageTaps<Float16>;
template void ImageTaps<float>::pack(const StripPart&, float*) const;
template void ImageTaps<double>::pack(const StripPart&, double*) const;
template void ImageTaps<BFloat16>::pack(const StripPart&, float*) const;
template void ImageTaps<BFloat16>::pack(const StripPart&, std::int32_t*) const;
template void ImageTaps<Float16>::pack(const StripPart&, float*) const;

}  // namespace tutti
