// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/convolution/image_columns.h>
#include <tutti/backend/cpu/convolution/winograd.h>
#include <tutti/backend/cpu/runtime/divide_up.h>
#include <tutti/backend/cpu/runtime/thread_pool.h>
#include <tutti/backend/memory/memory_pool.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

namespace tutti {

/// Whether Winograd's filtering is estimated to be faster, and may be used.
template <class S> bool filters(const ConvolutionSizes& of_group) {
  if constexpr (std::is_same_v<S, double>)
    return false;
  else
    return WinogradConvolution<S>::suits(of_group);
}

/// Sizes of a convolution, and the device, memory and threads that its kernels use. Images are taken in batches of a
/// size that depends on theirs alone: small ones together, so that matrix products are worth their start.
struct ConvolutionPlan {
  ConvolutionSizes size;
  ConvolutionSizes group;  // one group's channels alone
  Device device;
  MemoryPool& pool;
  ThreadPool& threads;
  std::int64_t batch;

  ConvolutionPlan(const ConvolutionSizes& sizes, Device place, MemoryPool& memory, ThreadPool& workers)
      : size(sizes),
        group(size.of_group()),
        device(place),
        pool(memory),
        threads(workers),
        batch(std::min(size.images, divide_up(kPositions, size.positions()))) {}

  /// The plan of the convolution that makes the images' gradient (`convolves_gradient`).
  ConvolutionPlan of_gradient() const { return {size.of_gradient(), device, pool, threads}; }

  static constexpr std::int64_t kMostDirect = 4;   // channels in times channels out of a group
  static constexpr std::int64_t kPositions = 128;  // that a batch should have

  std::int64_t batches() const { return divide_up(size.images, batch); }
  std::int64_t in_batch(std::int64_t index) const { return std::min(batch, size.images - index * batch); }

  /// True when the columns of an image are the image.
  bool is_pointwise() const {
    return size.kernel_height == 1 && size.kernel_width == 1 &&
           size.geometry.stride == std::array<std::int64_t, 2>{1, 1} && !size.is_padded();
  }
  /// True where matrix products would be too narrow.
  bool is_direct() const { return size.geometry.groups > 1 && group.channels * group.out_channels <= kMostDirect; }
  /// True if the images' gradient is best made as a convolution: there is one, and it is filtered, or it has few more
  /// positions than this one, and as products of a height that is worth packing for.
  template <class S> bool convolves_gradient() const {
    if (is_direct() || !size.has_convolved_gradient()) return false;
    return filters<S>(size.of_gradient().of_group()) ||
           (4 * size.height * size.width <= 5 * size.positions() && 2 * group.channels >= group.out_channels);
  }
  std::int64_t weights_of_group() const { return group.out_channels * group.taps(); }
  std::int64_t work_of_group() const { return weights_of_group() * size.positions(); }  // multiplications of an image
  std::int64_t joined_elements() const { return batch > 1 ? size.output_size() * batch : 0; }
};

}  // namespace tutti
