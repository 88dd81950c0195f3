// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/convolution/image_columns.h>
#include <tutti/backend/cpu/linear_algebra/gemm.h>
#include <tutti/backend/cpu/packs/wide_lanes.h>

#include <cstdint>
#include <type_traits>

namespace tutti {

/// The matrix [taps, positions of all images] of what each tap (channel, r, s) of a convolution's kernel sees at each
/// position, which is written nowhere: parts of it are packed for products, read from images with their padding.
template <class S> class ImageTaps {
 public:
  /// Elements behind the last padded image that may be read.
  static constexpr std::int64_t kSlack = 64;

  /// `padded`: the first image's channels of the group that `size` is of, `image_step` before the next one's.
  ImageTaps(const ConvolutionSizes& size, const S* padded, std::int64_t image_step)
      : size_(size), padded_(padded), image_step_(image_step) {}
  ImageTaps(ConvolutionSizes&&, const S*, std::int64_t) = delete;  // it is only referred to

  /// Packs a part, for gemm_by_parts: of this matrix, or of the one with rows and columns exchanged.
  template <class Packed> void pack(const StripPart& part, Packed* to) const;
  void pack_turned(const StripPart& part, ComputedIn<S>* to) const;
  void pack_turned(const StripPart& part, std::int32_t* to) const
    requires std::is_same_v<S, BFloat16>;

 private:
  /// Calls `f(place of the first in memory, count)` for positions of one row of an image that follow each other.
  template <class F> void for_each_run(std::int64_t position, std::int64_t count, const F& f) const;
  /// Calls `f(where it sees position 0)` for `count` taps from number `first` on.
  template <class F> void for_each_tap(std::int64_t first, std::int64_t count, const F& f) const;
  /// The same for what makes a packed row: one tap's, or two, the second null where there is none.
  template <class Packed, class F> void for_each_row(const StripPart& part, const F& f) const;

  const ConvolutionSizes& size_;
  const S* padded_;
  std::int64_t image_step_;
};

extern template class ImageTaps<float>;
extern template class ImageTaps<double>;
extern template class ImageTaps<BFloat16>;
extern template class ImageTaps<Float16>;
extern template void ImageTaps<float>::pack(const StripPart&, float*) const;
extern template void ImageTaps<double>::pack(const StripPart&, double*) const;
extern template void ImageTaps<BFloat16>::pack(const StripPart&, float*) const;
extern template void ImageTaps<BFloat16>::pack(const StripPart&, std::int32_t*) const;
extern template void ImageTaps<Float16>::pack(const StripPart&, float*) const;

}  // namespace tutti
