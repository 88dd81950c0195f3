// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/convolution/convolution_kernels.h>
#include <tutti/backend/cpu/convolution/image_batches.h>
#include <tutti/backend/cpu/linear_algebra/gemm.h>

namespace tutti {

/// output = weight [out_channels, taps] x taps' elements, of each group.
template <class S>
void ProductConvolution<S>::forward(const ConvolutionPlan& c, const S* input, const S* weight, S* output) {
  using T = ComputedIn<S>;
  if (by_filters<S>(c, [&](const auto& filter, std::int64_t images, std::int64_t results, std::int64_t w) {
        filter.forward(input + images, weight + w, output + results);
      }))
    return;
  c.threads.parallel_for(c.batches(), 1, [&](std::int64_t begin, std::int64_t end) {
    const Scratch<S> padded = padded_room<S>(c, c.group);
    const Scratch<T> joined(c.device, c.pool, is_short_float<S> ? c.size.output_size() * c.batch : c.joined_elements());
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t count = c.in_batch(i);
      const std::int64_t length = count * c.size.positions();
      const S* images = input + i * c.batch * c.size.image_size();
      S* const results = output + i * c.batch * c.size.output_size();
      T* computed = joined.data();
      if constexpr (!is_short_float<S>)
        if (count == 1) computed = results;
      for (std::int64_t g = 0; g < c.size.geometry.groups; ++g) {
        const MatrixView<S> matrix{weight + g * c.weights_of_group(), c.group.taps()};
        T* const group = computed + g * c.group.out_channels * length;
        if (count == 1 && c.is_pointwise()) {
          gemm<S>(c.group.out_channels, length, c.group.taps(), matrix, {images + g * c.group.taps() * length, length},
                  group, length);
        } else {
          const ImageTaps<S> seen = taps_of_batch(c, c.group, images + g * c.group.image_size(), count, padded.data());
          const auto write = [&](const StripPart& part, auto* strip) { seen.pack(part, strip); };
          gemm_by_parts<S>(c.group.out_channels, length, c.group.taps(), matrix, write, group, length);
        }
      }
      if (count > 1 || is_short_float<S>) part_images(c, computed, count, results);
    }
  });
}

namespace {

/// weight [groups, out_channels, channels, taps] of a group as [groups, channels, out_channels, taps in reverse].
template <class S> void reverse_weight(const ConvolutionPlan& c, const S* weight, S* reversed) {
  const std::int64_t taps = c.size.kernel_height * c.size.kernel_width;
  for (std::int64_t g = 0; g < c.size.geometry.groups; ++g)
    for (std::int64_t k = 0; k < c.group.out_channels; ++k)
      for (std::int64_t channel = 0; channel < c.group.channels; ++channel) {
        S* const to = reversed + g * c.weights_of_group() + (channel * c.group.out_channels + k) * taps;
        for (std::int64_t tap = 0; tap < taps; ++tap) to[taps - 1 - tap] = *weight++;
      }
}

/// The gradient of the images where it is a convolution itself.
template <class S> void convolved_gradient(const ConvolutionPlan& c, const S* gradient, const S* weight, S* to) {
  const ConvolutionPlan back = c.of_gradient();
  if (by_filters<S>(back, [&](const auto& filter, std::int64_t from, std::int64_t images, std::int64_t w) {
        filter.input_gradient(gradient + from, weight + w, to + images);
      }))
    return;
  const Scratch<S> reversed(c.device, c.pool, c.size.geometry.groups * c.weights_of_group());
  reverse_weight(c, weight, reversed.data());
  ProductConvolution<S>::forward(back, gradient, reversed.data(), to);
}

/// columns = weight^T x gradient, of each group, added back to the images.
template <class S> void columns_gradient(const ConvolutionPlan& c, const S* gradient, const S* weight, S* to) {
  using T = ComputedIn<S>;
  c.threads.parallel_for(c.batches(), 1, [&](std::int64_t begin, std::int64_t end) {
    const Scratch<T> columns(c.device, c.pool, c.size.taps() * c.batch * c.size.positions());
    const Scratch<S> joined(c.device, c.pool, c.joined_elements());
    const Scratch<T> padded(c.device, c.pool, c.size.padded_size());
    const Scratch<T> sums(c.device, c.pool, is_short_float<S> ? c.size.image_size() : 0);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t count = c.in_batch(i);
      const std::int64_t length = count * c.size.positions();
      const S* upstream = join_images(c, gradient + i * c.batch * c.size.output_size(), count, joined.data());
      for (std::int64_t g = 0; g < c.size.geometry.groups; ++g)
        gemm<S>(c.group.taps(), length, c.group.out_channels, {weight + g * c.weights_of_group(), c.group.taps(), true},
                {upstream + g * c.group.out_channels * length, length}, columns.data() + g * c.group.taps() * length,
                length);
      for (std::int64_t each = 0; each < count; ++each) {
        S* const image = to + (i * c.batch + each) * c.size.image_size();
        const T* const seen = columns.data() + each * c.size.positions();
        if constexpr (is_short_float<S>) {
          columns_to_image(c.size, seen, length, padded.data(), sums.data());
          narrow(sums.data(), image, c.size.image_size());
        } else {
          columns_to_image(c.size, seen, length, padded.data(), image);
        }
      }
    }
  });
}

}  // namespace

template <class S>
void ProductConvolution<S>::input_gradient(const ConvolutionPlan& c, const S* gradient, const S* weight, S* to) {
  c.convolves_gradient<S>() ? convolved_gradient(c, gradient, weight, to) : columns_gradient(c, gradient, weight, to);
}

#define TUTTI_CONVOLUTIONS(S)                                                                   \
  template void ProductConvolution<S>::forward(const ConvolutionPlan&, const S*, const S*, S*); \
  template void ProductConvolution<S>::input_gradient(const ConvolutionPlan&, const S*, const S*, S*);
TUTTI_CONVOLUTIONS(float)
TUTTI_CONVOLUTIONS(double)
TUTTI_CONVOLUTIONS(BFloat16)
TUTTI_CONVOLUTIONS(Float16)
#undef TUTTI_CONVOLUTIONS

}  // namespace tutti
