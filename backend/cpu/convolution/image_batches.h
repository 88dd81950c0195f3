// SPDX-License-Identifier: Apache-2.0
#pragma once

// Batches of images, which one product takes together.

#include <tutti/backend/cpu/convolution/convolution_plan.h>
#include <tutti/backend/cpu/convolution/image_taps.h>
#include <tutti/backend/cpu/runtime/scratch.h>

#include <algorithm>
#include <cstdint>

namespace tutti {

/// Room for the images of a batch with their padding, of the channels of `seen`, and what taps may read behind them.
template <class S> Scratch<S> padded_room(const ConvolutionPlan& c, const ConvolutionSizes& seen) {
  return {c.device, c.pool, c.batch * seen.padded_size() + ImageTaps<S>::kSlack};
}

/// Writes `count` images with their padding, the channels of `seen` from `images` on, and returns what taps see of
/// them.
template <class S> ImageTaps<S> taps_of_batch(const ConvolutionPlan& c, const ConvolutionSizes& seen, const S* images,
                                              std::int64_t count, S* padded) {
  for (std::int64_t i = 0; i < count; ++i)
    pad_image(seen, images + i * c.size.image_size(), padded + i * seen.padded_size());
  return {seen, padded, seen.padded_size()};
}

/// [count, out_channels, positions] as [out_channels, count * positions]; itself for one image.
template <class S> const S* join_images(const ConvolutionPlan& c, const S* images, std::int64_t count, S* scratch) {
  if (count == 1) return images;
  const std::int64_t positions = c.size.positions();
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t channel = 0; channel < c.size.out_channels; ++channel)
      std::copy_n(images + i * c.size.output_size() + channel * positions, positions,
                  scratch + (channel * count + i) * positions);
  return scratch;
}

/// The inverse of `join_images`; rounds what was computed.
template <class S>
void part_images(const ConvolutionPlan& c, const ComputedIn<S>* joined, std::int64_t count, S* images) {
  const std::int64_t positions = c.size.positions();
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t channel = 0; channel < c.size.out_channels; ++channel)
      narrow(joined + (channel * count + i) * positions, images + i * c.size.output_size() + channel * positions,
             positions);
}

/// Calls `f(filter, offset of the group's images, of its results, of its weights)` for each group where
/// `filters`. Returns whether it did.
template <class S, class F> bool by_filters(const ConvolutionPlan& c, const F& f) {
  if (!filters<S>(c.group)) return false;
  if constexpr (!std::is_same_v<S, double>) {
    const WinogradConvolution<S> filter(c.group, c.size, c.device, c.pool, c.threads);
    for (std::int64_t g = 0; g < c.size.geometry.groups; ++g)
      f(filter, g * c.group.image_size(), g * c.group.output_size(), g * c.weights_of_group());
  }
  return true;
}

}  // namespace tutti
