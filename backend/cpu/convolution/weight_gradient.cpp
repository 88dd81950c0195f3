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
  static constexpr std::int64_t kMostScratch = std::int64_t{1} << 24U;  // elements of partial sums

  explicit WeightBlocks(const ConvolutionPlan& c)
      : channels(std::clamp<std::int64_t>(kMostWeights * c.group.channels / c.weights_of_group(), 1, c.group.channels)),
        of_group(divide_up(c.group.channels, channels)),
        count(of_group * c.size.geometry.groups),
        batches(divide_up(c.batches(), std::clamp<std::int64_t>(std::min(kTasks / count, kMostScratch / all_weights(c)),
                                                                1, c.batches()))),
        parts(divide_up(c.batches(), batches)) {}

  static std::int64_t all_weights(const ConvolutionPlan& c) { return c.size.geometry.groups * c.weights_of_group(); }

  std::int64_t channels;  // of a block; the last of a group may have fewer
  std::int64_t of_group;
  std::int64_t count;
  std::int64_t batches;  // of a part
  std::int64_t parts;
};

/// The gradient with the images of each batch joined, for the blocks that read it: all at once where there are several
/// blocks, else batch by batch, in memory of the thread.
template <class S> class JoinedGradient {
 public:
  JoinedGradient(const ConvolutionPlan& c, const WeightBlocks& blocks, const S* gradient)
      : c_(c),
        gradient_(gradient),
        is_joined_(c.batch > 1 && blocks.count > 1),
        all_(c.device, c.pool, is_joined_ ? c.size.images * c.size.output_size() : 0) {
    if (!is_joined_) return;
    c.threads.parallel_for(c.batches(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        S* const to = all_.data() + place(i);
        if (join_images(c, gradient + place(i), c.in_batch(i), to) != to)  // a last one of a single image
          std::copy_n(gradient + place(i), c.in_batch(i) * c.size.output_size(), to);
      }
    });
  }
  /// Elements that `batch` works in.
  std::int64_t scratch() const { return is_joined_ ? 0 : c_.joined_elements(); }
  const S* batch(std::int64_t i, S* scratch) const {
    return is_joined_ ? all_.data() + place(i) : join_images(c_, gradient_ + place(i), c_.in_batch(i), scratch);
  }

 private:
  std::int64_t place(std::int64_t i) const { return i * c_.batch * c_.size.output_size(); }

  const ConvolutionPlan& c_;
  const S* gradient_;
  bool is_joined_;
  Scratch<S> all_;
};

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
  const std::int64_t weights = WeightBlocks::all_weights(c);
  const WideResult<S> result(c.device, c.pool, to, weights);
  const Scratch<T> partial(c.device, c.pool, (blocks.parts - 1) * weights);
  const auto sum_of = [&](std::int64_t part) {
    return part == 0 ? result.data() : partial.data() + (part - 1) * weights;
  };
  const JoinedGradient<S> joined(c, blocks, gradient);
  const std::int64_t plane = c.size.height * c.size.width;
  c.threads.parallel_for(blocks.parts * blocks.count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t part = task / blocks.count;
      const std::int64_t g = task % blocks.count / blocks.of_group;
      const std::int64_t first = task % blocks.of_group * blocks.channels;
      ConvolutionSizes of_block = c.group;
      of_block.channels = std::min(blocks.channels, c.group.channels - first);
      const Scratch<S> padded = padded_room<S>(c, of_block);
      const Scratch<S> batch(c.device, c.pool, joined.scratch());
      T* const block = sum_of(part) + g * c.weights_of_group() + first * c.size.kernel_height * c.size.kernel_width;
      for (std::int64_t i = part * blocks.batches; i < std::min(c.batches(), (part + 1) * blocks.batches); ++i) {
        const std::int64_t length = c.in_batch(i) * c.size.positions();
        const ImageTaps<S> seen = taps_of_batch(
            c, of_block, input + i * c.batch * c.size.image_size() + (g * c.group.channels + first) * plane,
            c.in_batch(i), padded.data());
        const auto write = [&](const StripPart& strip, auto* packed) { seen.pack_turned(strip, packed); };
        const S* const upstream = joined.batch(i, batch.data()) + g * c.group.out_channels * length;
        gemm_by_parts<S>(c.group.out_channels, of_block.taps(), length, {upstream, length}, write, block,
                         c.group.taps(), i > part * blocks.batches);
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
