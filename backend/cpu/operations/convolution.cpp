// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/linear_algebra/gemm.h>
#include <tutti/backend/cpu/operations/direct_convolution.h>
#include <tutti/backend/cpu/operations/divide_up.h>
#include <tutti/backend/cpu/operations/image_columns.h>
#include <tutti/backend/cpu/operations/image_taps.h>
#include <tutti/backend/cpu/operations/wide_copies.h>
#include <tutti/backend/cpu/operations/winograd.h>

#include <algorithm>
#include <type_traits>

namespace tutti {
namespace {

/// Whether Winograd's filtering is estimated to be faster, and may be used.
template <class S> bool filters(const ConvolutionSizes& of_group) {
  if constexpr (std::is_same_v<S, double>)
    return false;
  else
    return WinogradConvolution<S>::suits(of_group);
}

/// What a kernel runs with. Images are taken in batches of a size that depends on theirs alone: small ones together, so
/// that matrix products are worth their start.
struct Convolution {
  ConvolutionSizes size;
  ConvolutionSizes group;  // of channels
  Device device;
  MemoryPool& pool;
  ThreadPool& threads;
  std::int64_t batch;

  Convolution(const ConvolutionSizes& sizes, Device place, CpuBackend& backend)
      : size(sizes),
        group(size.of_group()),
        device(place),
        pool(backend.pool(device)),
        threads(backend.threads(device)),
        batch(std::min(size.images, divide_up(kPositions, size.positions()))) {}

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

/// Elements that one thread works in, from the device's pool.
template <class E> class Room {
 public:
  Room(const Convolution& c, std::int64_t elements)
      : storage_(c.device, c.pool, static_cast<std::size_t>(elements) * sizeof(E)) {}
  E* data() const { return reinterpret_cast<E*>(storage_.data()); }

 private:
  Storage storage_;
};

/// Room for the padded images of a batch, and what taps may read behind them.
template <class S> Room<S> padded_room(const Convolution& c) {
  return {c, c.batch * c.size.padded_size() + ImageTaps<S>::kSlack};
}

/// The images of a batch with their padding, and what the taps of each group see of them.
template <class S> class BatchTaps {
 public:
  BatchTaps(const Convolution& c, const S* images, std::int64_t count, S* padded) : c_(c), padded_(padded) {
    for (std::int64_t i = 0; i < count; ++i)
      pad_image(c.size, images + i * c.size.image_size(), padded + i * c.size.padded_size());
  }
  ImageTaps<S> of_group(std::int64_t g) const {
    return {c_.group, padded_ + g * c_.group.padded_size(), c_.size.padded_size()};
  }

 private:
  const Convolution& c_;
  const S* padded_;
};

/// [count, out_channels, positions] as [out_channels, count * positions]; itself for one image.
template <class S> const S* join_images(const Convolution& c, const S* images, std::int64_t count, S* scratch) {
  if (count == 1) return images;
  const std::int64_t positions = c.size.positions();
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t channel = 0; channel < c.size.out_channels; ++channel)
      std::copy_n(images + i * c.size.output_size() + channel * positions, positions,
                  scratch + (channel * count + i) * positions);
  return scratch;
}

/// The inverse of `join_images`; rounds what was computed.
template <class S> void part_images(const Convolution& c, const ComputedIn<S>* joined, std::int64_t count, S* images) {
  const std::int64_t positions = c.size.positions();
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t channel = 0; channel < c.size.out_channels; ++channel)
      narrow(joined + (channel * count + i) * positions, images + i * c.size.output_size() + channel * positions,
             positions);
}

/// Calls `f(filter, offset of the group's images, of its results, of its weights)` for each group where
/// `filters`. Returns whether it did.
template <class S, class F> bool by_filters(const Convolution& c, const F& f) {
  if (!filters<S>(c.group)) return false;
  if constexpr (!std::is_same_v<S, double>) {
    const WinogradConvolution<S> filter(c.group, c.size, c.device, c.pool, c.threads);
    for (std::int64_t g = 0; g < c.size.geometry.groups; ++g)
      f(filter, g * c.group.image_size(), g * c.group.output_size(), g * c.weights_of_group());
  }
  return true;
}

/// output = weight [out_channels, taps] x taps' elements, of each group.
template <class S> void forward(const Convolution& c, const S* input, const S* weight, S* output) {
  using T = ComputedIn<S>;
  if (by_filters<S>(c, [&](const auto& filter, std::int64_t images, std::int64_t results, std::int64_t w) {
        filter.forward(input + images, weight + w, output + results);
      }))
    return;
  c.threads.parallel_for(c.batches(), 1, [&](std::int64_t begin, std::int64_t end) {
    const Room<S> padded = padded_room<S>(c);
    const Room<T> joined(c, is_short_float<S> ? c.size.output_size() * c.batch : c.joined_elements());
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t count = c.in_batch(i);
      const std::int64_t length = count * c.size.positions();
      const S* images = input + i * c.batch * c.size.image_size();
      S* const results = output + i * c.batch * c.size.output_size();
      T* computed = joined.data();
      if constexpr (!is_short_float<S>)
        if (count == 1) computed = results;
      const auto matrix = [&](std::int64_t g) {
        return MatrixView<S>{weight + g * c.weights_of_group(), c.group.taps()};
      };
      const auto to = [&](std::int64_t g) { return computed + g * c.group.out_channels * length; };
      const std::int64_t groups = c.size.geometry.groups;
      if (count == 1 && c.is_pointwise()) {
        for (std::int64_t g = 0; g < groups; ++g)
          gemm<S>(c.group.out_channels, length, c.group.taps(), matrix(g),
                  {images + g * c.group.taps() * length, length}, to(g), length);
      } else {
        const BatchTaps<S> taps(c, images, count, padded.data());
        for (std::int64_t g = 0; g < groups; ++g) {
          const ImageTaps<S> seen = taps.of_group(g);
          const auto write = [&](const StripPart& part, auto* strip) { seen.pack(part, strip); };
          gemm_by_parts<S>(c.group.out_channels, length, c.group.taps(), matrix(g), write, to(g), length);
        }
      }
      if (count > 1 || is_short_float<S>) part_images(c, computed, count, results);
    }
  });
}

/// weight [groups, out_channels, channels, taps] of a group as [groups, channels, out_channels, taps in reverse].
template <class S> void reverse_weight(const Convolution& c, const S* weight, S* reversed) {
  const std::int64_t taps = c.size.kernel_height * c.size.kernel_width;
  for (std::int64_t g = 0; g < c.size.geometry.groups; ++g)
    for (std::int64_t k = 0; k < c.group.out_channels; ++k)
      for (std::int64_t channel = 0; channel < c.group.channels; ++channel) {
        S* const to = reversed + g * c.weights_of_group() + (channel * c.group.out_channels + k) * taps;
        for (std::int64_t tap = 0; tap < taps; ++tap) to[taps - 1 - tap] = *weight++;
      }
}

/// The gradient of the images where it is a convolution itself.
template <class S>
void convolved_gradient(const Convolution& c, const Convolution& back, const S* gradient, const S* weight, S* to) {
  if (by_filters<S>(back, [&](const auto& filter, std::int64_t from, std::int64_t images, std::int64_t w) {
        filter.input_gradient(gradient + from, weight + w, to + images);
      }))
    return;
  const Room<S> reversed(c, c.size.geometry.groups * c.weights_of_group());
  reverse_weight(c, weight, reversed.data());
  forward<S>(back, gradient, reversed.data(), to);
}

/// columns = weight^T x gradient, of each group, added back to the images.
template <class S> void input_gradient(const Convolution& c, const S* gradient, const S* weight, S* to) {
  using T = ComputedIn<S>;
  c.threads.parallel_for(c.batches(), 1, [&](std::int64_t begin, std::int64_t end) {
    const Room<T> columns(c, c.size.taps() * c.batch * c.size.positions());
    const Room<S> joined(c, c.joined_elements());
    const Room<T> padded(c, c.size.padded_size());
    const Room<T> sums(c, is_short_float<S> ? c.size.image_size() : 0);
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

/// gradient x taps' elements^T, summed over the images: within up to kParts parts of the batch first, then over the
/// parts, both in order.
template <class S> void weight_gradient(const Convolution& c, const S* gradient, const S* input, S* to) {
  using T = ComputedIn<S>;
  if (by_filters<S>(c, [&](const auto& filter, std::int64_t images, std::int64_t results, std::int64_t w) {
        filter.weight_gradient(gradient + results, input + images, to + w);
      }))
    return;
  constexpr std::int64_t kParts = 8;
  constexpr std::int64_t kMostScratch = std::int64_t{1} << 24U;  // elements
  const std::int64_t weights = c.size.geometry.groups * c.weights_of_group();
  const std::int64_t wanted = std::clamp<std::int64_t>(kMostScratch / weights, 1, std::min(kParts, c.batches()));
  const std::int64_t per_part = divide_up(c.batches(), wanted);
  const std::int64_t parts = divide_up(c.batches(), per_part);
  const WideResult<S> result(c.device, c.pool, to, weights);
  const Room<T> partial(c, (parts - 1) * weights);
  const auto sum_of = [&](std::int64_t part) {
    return part == 0 ? result.data() : partial.data() + (part - 1) * weights;
  };
  c.threads.parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    const Room<S> joined(c, c.joined_elements());
    const Room<S> padded = padded_room<S>(c);
    for (std::int64_t part = begin; part < end; ++part)
      for (std::int64_t i = part * per_part; i < std::min(c.batches(), (part + 1) * per_part); ++i) {
        const std::int64_t count = c.in_batch(i);
        const std::int64_t length = count * c.size.positions();
        const S* upstream = join_images(c, gradient + i * c.batch * c.size.output_size(), count, joined.data());
        const BatchTaps<S> taps(c, input + i * c.batch * c.size.image_size(), count, padded.data());
        for (std::int64_t g = 0; g < c.size.geometry.groups; ++g) {
          const ImageTaps<S> seen = taps.of_group(g);
          const auto write = [&](const StripPart& strip, auto* packed) { seen.pack_turned(strip, packed); };
          gemm_by_parts<S>(c.group.out_channels, c.group.taps(), length,
                           {upstream + g * c.group.out_channels * length, length}, write,
                           sum_of(part) + g * c.weights_of_group(), c.group.taps(), i > part * per_part);
        }
      }
  });
  constexpr std::int64_t kGrain = 16384;
  c.threads.parallel_for(weights, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = 1; part < parts; ++part)
      for (std::int64_t i = begin; i < end; ++i) result.data()[i] += sum_of(part)[i];
    result.write(begin, end);
  });
}

// --- the same for groups of few channels

/// Calls `f(direct, i)` for all i < count, each of which takes `work` multiplications.
template <class T, class F> void for_each_direct(const Convolution& c, std::int64_t count, std::int64_t work, F&& f) {
  constexpr std::int64_t kGrain = 65536;  // multiplications
  c.threads.parallel_for(count, std::max<std::int64_t>(1, kGrain / work), [&](std::int64_t begin, std::int64_t end) {
    DirectConvolution<T> direct(c.group, c.device, c.pool);
    for (std::int64_t i = begin; i < end; ++i) f(direct, i);
  });
}

/// Groups of channels follow each other in images as images do. Elements of 16 bits are widened for all.
template <class S> void forward_directly(const Convolution& c, const S* input, const S* weight, S* output) {
  using T = ComputedIn<S>;
  const std::int64_t groups = c.size.geometry.groups;
  const WideOperand<S> x(c.device, c.pool, c.threads, input, c.size.images * c.size.image_size());
  const WideOperand<S> w(c.device, c.pool, c.threads, weight, groups * c.weights_of_group());
  const WideResult<S> y(c.device, c.pool, output, c.size.images * c.size.output_size());
  for_each_direct<T>(c, c.size.images * groups, c.work_of_group(), [&](DirectConvolution<T>& direct, std::int64_t i) {
    direct.forward(x.data() + i * c.group.image_size(), w.data() + i % groups * c.weights_of_group(),
                   y.data() + i * c.group.output_size());
    y.write(i * c.group.output_size(), (i + 1) * c.group.output_size());
  });
}

template <class S> void input_gradient_directly(const Convolution& c, const S* gradient, const S* weight, S* to) {
  using T = ComputedIn<S>;
  const std::int64_t groups = c.size.geometry.groups;
  const WideOperand<S> dy(c.device, c.pool, c.threads, gradient, c.size.images * c.size.output_size());
  const WideOperand<S> w(c.device, c.pool, c.threads, weight, groups * c.weights_of_group());
  const WideResult<S> dx(c.device, c.pool, to, c.size.images * c.size.image_size());
  for_each_direct<T>(c, c.size.images * groups, c.work_of_group(), [&](DirectConvolution<T>& direct, std::int64_t i) {
    direct.input_gradient(dy.data() + i * c.group.output_size(), w.data() + i % groups * c.weights_of_group(),
                          dx.data() + i * c.group.image_size());
    dx.write(i * c.group.image_size(), (i + 1) * c.group.image_size());
  });
}

/// Over the images in order.
template <class S> void weight_gradient_directly(const Convolution& c, const S* gradient, const S* input, S* to) {
  using T = ComputedIn<S>;
  const std::int64_t groups = c.size.geometry.groups;
  const std::int64_t work = c.size.images * c.work_of_group();
  const WideOperand<S> dy(c.device, c.pool, c.threads, gradient, c.size.images * c.size.output_size());
  const WideOperand<S> x(c.device, c.pool, c.threads, input, c.size.images * c.size.image_size());
  const WideResult<S> dw(c.device, c.pool, to, groups * c.weights_of_group());
  for_each_direct<T>(c, groups, work, [&](DirectConvolution<T>& direct, std::int64_t g) {
    T* const weight = dw.data() + g * c.weights_of_group();
    std::fill_n(weight, c.weights_of_group(), T(0));
    for (std::int64_t i = g; i < c.size.images * groups; i += groups)
      direct.weight_gradient(dy.data() + i * c.group.output_size(), x.data() + i * c.group.image_size(), weight);
    dw.write(g * c.weights_of_group(), (g + 1) * c.weights_of_group());
  });
}

}  // namespace

void CpuBackend::conv2d(const Conv2dGeometry& geometry, const Array& input, const Array& weight, const Array& output) {
  stream(output.device())
      .launch(
          "conv2d",
          [geometry, this](const Array& x, const Array& w, const Array& y) {
            const Convolution convolution({geometry, x.shape(), w.shape(), y.shape()}, x.device(), *this);
            visit_any_floating(y.dtype(), [&]<class S>(std::type_identity<S>) {
              const auto convolve = convolution.is_direct() ? forward_directly<S> : forward<S>;
              convolve(convolution, x.data<S>(), w.data<S>(), y.data<S>());
            });
          },
          input, weight, output);
}

void CpuBackend::conv2d_input_gradient(const Conv2dGeometry& geometry, const Array& gradient, const Array& weight,
                                       const Array& input_gradient) {
  stream(gradient.device())
      .launch(
          "conv2d_input_gradient",
          [geometry, this](const Array& dy, const Array& w, const Array& dx) {
            const Convolution convolution({geometry, dx.shape(), w.shape(), dy.shape()}, dx.device(), *this);
            visit_any_floating(dx.dtype(), [&]<class S>(std::type_identity<S>) {
              if (convolution.convolves_gradient<S>()) {
                const Convolution back(convolution.size.of_gradient(), dx.device(), *this);
                convolved_gradient(convolution, back, dy.data<S>(), w.data<S>(), dx.data<S>());
                return;
              }
              const auto convolve = convolution.is_direct() ? input_gradient_directly<S> : tutti::input_gradient<S>;
              convolve(convolution, dy.data<S>(), w.data<S>(), dx.data<S>());
            });
          },
          gradient, weight, input_gradient);
}

void CpuBackend::conv2d_weight_gradient(const Conv2dGeometry& geometry, const Array& gradient, const Array& input,
                                        const Array& weight_gradient) {
  stream(gradient.device())
      .launch(
          "conv2d_weight_gradient",
          [geometry, this](const Array& dy, const Array& x, const Array& dw) {
            const Convolution convolution({geometry, x.shape(), dw.shape(), dy.shape()}, x.device(), *this);
            visit_any_floating(dw.dtype(), [&]<class S>(std::type_identity<S>) {
              const auto convolve = convolution.is_direct() ? weight_gradient_directly<S> : tutti::weight_gradient<S>;
              convolve(convolution, dy.data<S>(), x.data<S>(), dw.data<S>());
            });
          },
          gradient, input, weight_gradient);
}

}  // namespace tutti
