// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/convolution/image_columns.h>
#include <tutti/backend/cpu/runtime/thread_pool.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/memory/storage.h>

#include <cstdint>

namespace tutti {
namespace winograd {
struct Block;
}

/// Convolutions with kernels of 3 x 3 taps by Winograd's minimal filtering: each tile of 4 x 4 results takes 36
/// products for each pair of channels, in place of 144. Images and weights are evaluated at 36 points and multiplied
/// there, which makes 36 matrix products, and results are interpolated. Points of an axis: 0, +-sqrt(1/2), +-sqrt(2),
/// infinity. Rounding errors are three to four times those of sums tap by tap, relative to the largest element of a
/// tile. Elements that are not finite, or above about 1e36, make NaN of all results of the tiles that see them.
///
/// An object is one convolution's of one group of channels. Results do not depend on the number of threads.
template <class S> class WinogradConvolution {
 public:
  /// Whether it is estimated to be faster than products of all taps, from sizes alone, and may be used: not with
  /// TUTTI_CPU_WINOGRAD=0 in the environment, nor for bf16 where the processor multiplies that itself.
  static bool suits(const ConvolutionSizes& of_group);

  /// `of_all`: the same convolution with all groups, in whose images the group's channels lie.
  WinogradConvolution(const ConvolutionSizes& of_group, const ConvolutionSizes& of_all, Device, MemoryPool&,
                      ThreadPool&);

  /// Computes results from images and the weight, each from its first channel of the group on. Throws std::bad_alloc.
  void forward(const S* images, const S* weight, S* results) const;
  /// The gradient of images by a convolution of which this is `of_gradient`: with that one's weight.
  void input_gradient(const S* gradient, const S* weight, S* images) const;
  void weight_gradient(const S* gradient, const S* images, S* weight) const;

 private:
  using Block = winograd::Block;

  std::int64_t rows_for(std::int64_t tiles) const;
  std::int64_t weight_rows(std::int64_t rows) const;
  template <class F> void for_each_block(std::int64_t rows, const F&) const;
  void convolve(const S* images, const S* weight, bool is_of_gradient, S* results) const;
  void evaluate_weight(const S* weight, bool is_of_gradient, std::int64_t first_row, std::int64_t count,
                       float* points) const;
  void evaluate_images(const Block&, const S* images, float* points) const;
  void evaluate_gradient(const Block&, const S* gradient, float* points) const;
  void interpolate(const Block&, const float* points, std::int64_t count, S* results) const;
  void gather_weight(const float* points, std::int64_t count, S* weight) const;

  const ConvolutionSizes& size_;
  const ConvolutionSizes& all_;
  Device device_;
  MemoryPool& pool_;
  ThreadPool& threads_;
  std::int64_t tiles_across_;
  std::int64_t tiles_down_;
};

extern template class WinogradConvolution<float>;
extern template class WinogradConvolution<BFloat16>;
extern template class WinogradConvolution<Float16>;

}  // namespace tutti
