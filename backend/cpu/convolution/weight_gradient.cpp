// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/convolution/convolution_kernels.h>
#include <tutti/backend/cpu/convolution/image_batches.h>
#include <tutti/backend/cpu/linear_algebra/gemm.h>
#include <tutti/backend/cpu/packs/wide_copies.h>

namespace tutti {
namespace {

/// How the weights' gradient is cut for threads, by sizes alone: the channels of each group in blocks whose weights
/// stay in a cache while images pass by, and the batches of images in parts where there are few blocks.
struct WeightBlocks {
  static constexpr std::int64_t kTasks = 8;
  static constexpr std::int64_t kMostWeights = std::int64_t{1} << 18U;

  explicit WeightBlocks(const ConvolutionPlan& c)
      : channels(std::clamp<std::int64_t>(kMostWeights * c.group.channels / c.weights_of_group(), 1, c.group.channels)),
        of_group(divide_up(c.group.channels, channels)),
        count(of_group * c.size.geometry.groups),
        batches(divide_up(c.batches(), std::clamp<std::int64_t>(kTasks / count, 1, c.batches()))),
        parts(divide_up(c.batches(), batches)) {}

  std::int64_t channels;  // of a block; the last of a group may have fewer
  std::int64_t of_group;
  std::int64_t count;
  std::int64_t batches;  // of a part
  std::int64_t parts;
};

/// All of `join_images`, for many readers; `gradient` itself where batches are of one image.
template <class S> const S* join_all_images(const ConvolutionPlan& c, const S* gradient, S* scratch) {
  if (c.batch == 1) return gradient;
  c.threads.parallel_for(c.batches(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t place = i * c.batch * c.size.output_size();
      const std::int64_t count = c.in_batch(i);
      if (join_images(c, gradient + place, count, scratch + place) == gradient + place)  // one that is left over
        std::copy_n(gradient + place, count * c.size.output_size(), scratch + place);
    }
  });
  return scratch;
}

template <class T> void add_to(T* __restrict sums, const T* __restrict values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += values[i];
}

}  // namespace

/// gradient x taps' elements^T, summed over the images: within parts of the batch first, then over the parts, both in
/// order.
template <class S>
void ProductConvolution<S>::weight_gradient(const ConvolutionPlan& c, const S* gradient, const S* input, S* to) {
  using T = ComputedIn<S>;
  if (by_filters<S>(c, [&](const auto& filter, std::int64_t images, std::int64_t results, std::int64_t w) {
        filter.weight_gradient(gradient + results, input + images, to + w);
      }))
    return;
  const WeightBlocks blocks(c);
  const std::int64_t weights = c.size.geometry.groups * c.weights_of_group();
  const WideResult<S> result(c.device, c.pool, to, weights);
  const Scratch<T> partial(c.device, c.pool, (blocks.parts - 1) * weights);
  const auto sum_of = [&](std::int64_t part) {
    return part == 0 ? result.data() : partial.data() + (part - 1) * weights;
  };
  const Scratch<S> joined(c.device, c.pool, c.batch > 1 ? c.size.images * c.size.output_size() : 0);
  const S* const upstream = join_all_images(c, gradient, joined.data());
  const std::int64_t plane = c.size.height * c.size.width;
  c.threads.parallel_for(blocks.parts * blocks.count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t part = task / blocks.count;
      const std::int64_t g = task % blocks.count / blocks.of_group;
      const std::int64_t first = task % blocks.of_group * blocks.channels;
      ConvolutionSizes of_block = c.group;
      of_block.channels = std::min(blocks.channels, c.group.channels - first);
      const Scratch<S> padded = padded_room<S>(c, of_block);
      T* const block = sum_of(part) + g * c.weights_of_group() + first * c.size.kernel_height * c.size.kernel_width;
      for (std::int64_t i = part * blocks.batches; i < std::min(c.batches(), (part + 1) * blocks.batches); ++i) {
        const std::int64_t length = c.in_batch(i) * c.size.positions();
        const ImageTaps<S> seen = taps_of_batch(
            c, of_block, input + i * c.batch * c.size.image_size() + (g * c.group.channels + first) * plane,
            c.in_batch(i), padded.data());
        const auto write = [&](const StripPart& strip, auto* packed) { seen.pack_turned(strip, packed); };
        gemm_by_parts<S>(c.group.out_channels, of_block.taps(), length,
                         {upstream + i * c.batch * c.size.output_size() + g * c.group.out_channels * length, length},
                         write, block, c.group.taps(), i > part * blocks.batches);
      }
    }
  });
  if (blocks.parts == 1 && !is_short_float<S>) return;
  constexpr std::int64_t kGrain = 16384;
  c.threads.parallel_for(weights, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = 1; part < blocks.parts; ++part)
      add_to(result.data() + begin, sum_of(part) + begin, end - begin);
    result.write(begin, end);
  });
}

#define TUTTI_CONVOLUTIONS(S) \
  template void ProductConvolution<S>::weight_gradient(const ConvolutionPlan&, const S*, const S*, S*);
TUTTI_CONVOLUTIONS(float)
TUTTI_CONVOLUTIONS(double)
TUTTI_CONVOLUTIONS(BFloat16)
TUTTI_CONVOLUTIONS(Float16)
#undef TUTTI_CONVOLUTIONS

}  // namespace tutti
