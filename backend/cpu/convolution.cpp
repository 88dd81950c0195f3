// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/gemm.h>
#include <tutti/backend/cpu/image_columns.h>
#include <tutti/backend/cpu/pack_loops.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// What a kernel runs with. Images are taken in groups of a size that depends on theirs alone: small ones together, so
/// that matrix products are worth their start.
struct Convolution {
  ConvolutionSizes size;
  Device device;
  MemoryPool& pool;
  ThreadPool& threads;
  std::int64_t group;

  Convolution(const Conv2dGeometry& g, const Array& input, const Array& weight, const Array& output,
              CpuBackend& backend)
      : size(g, input.shape(), weight.shape(), output.shape()),
        device(input.device()),
        pool(backend.pool(device)),
        threads(backend.threads(device)),
        group(std::min(size.images, divide_up(kPositions, size.positions()))) {}

  static constexpr std::int64_t kPositions = 128;  // that a group should have

  std::int64_t groups() const { return divide_up(size.images, group); }
  std::int64_t in_group(std::int64_t index) const { return std::min(group, size.images - index * group); }
  std::int64_t output_size() const { return size.out_channels * size.positions(); }

  /// True when the columns of an image are the image.
  bool is_pointwise() const {
    return size.kernel_height == 1 && size.kernel_width == 1 &&
           size.geometry.stride == std::array<std::int64_t, 2>{1, 1} && !size.is_padded();
  }
  std::int64_t column_elements() const { return size.taps() * group * size.positions(); }
  std::int64_t joined_elements() const { return output_size() * group; }
};

/// What one thread works in, from the device's pool.
template <class T> class Scratch {
 public:
  explicit Scratch(const Convolution& c)
      : storage_(
            c.device, c.pool,
            static_cast<std::size_t>(c.column_elements() + c.joined_elements() + c.size.padded_size()) * sizeof(T)),
        columns(reinterpret_cast<T*>(storage_.data())),
        joined(columns + c.column_elements()),
        padded(joined + c.joined_elements()) {}

 private:
  Storage storage_;

 public:
  T* const columns;
  T* const joined;  // outputs of a group, or their gradients
  T* const padded;  // an image
};

/// Columns of `count` images side by side: [taps, count * positions]; the image itself where it needs no change.
template <class T> const T* columns_of(const Convolution& c, const T* images, std::int64_t count, Scratch<T>& scratch) {
  if (c.is_pointwise() && count == 1) return images;
  const std::int64_t positions = c.size.positions();
  for (std::int64_t i = 0; i < count; ++i)
    image_to_columns(c.size, images + i * c.size.image_size(), scratch.padded, scratch.columns + i * positions,
                     count * positions);
  return scratch.columns;
}

/// [count, out_channels, positions] as [out_channels, count * positions]; itself for one image.
template <class T> const T* join_images(const Convolution& c, const T* images, std::int64_t count, T* scratch) {
  if (count == 1) return images;
  const std::int64_t positions = c.size.positions();
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t channel = 0; channel < c.size.out_channels; ++channel)
      std::copy_n(images + i * c.output_size() + channel * positions, positions,
                  scratch + (channel * count + i) * positions);
  return scratch;
}

/// The inverse of `join_images`.
template <class T> void part_images(const Convolution& c, const T* joined, std::int64_t count, T* images) {
  const std::int64_t positions = c.size.positions();
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t channel = 0; channel < c.size.out_channels; ++channel)
      std::copy_n(joined + (channel * count + i) * positions, positions,
                  images + i * c.output_size() + channel * positions);
}

/// output = weight [out_channels, taps] x columns.
template <class T> void forward(const Convolution& c, const T* input, const T* weight, T* output) {
  c.threads.parallel_for(c.groups(), 1, [&](std::int64_t begin, std::int64_t end) {
    Scratch<T> scratch(c);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t count = c.in_group(i);
      const std::int64_t length = count * c.size.positions();
      const T* seen = columns_of(c, input + i * c.group * c.size.image_size(), count, scratch);
      T* images = output + i * c.group * c.output_size();
      T* result = count == 1 ? images : scratch.joined;
      gemm<T>(c.size.out_channels, length, c.size.taps(), {weight, c.size.taps()}, {seen, length}, result, length);
      if (count > 1) part_images(c, result, count, images);
    }
  });
}

/// columns = weight^T x gradient, added back to the images.
template <class T> void input_gradient(const Convolution& c, const T* gradient, const T* weight, T* to) {
  c.threads.parallel_for(c.groups(), 1, [&](std::int64_t begin, std::int64_t end) {
    Scratch<T> scratch(c);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t count = c.in_group(i);
      const std::int64_t length = count * c.size.positions();
      const T* upstream = join_images(c, gradient + i * c.group * c.output_size(), count, scratch.joined);
      gemm<T>(c.size.taps(), length, c.size.out_channels, {weight, c.size.taps(), true}, {upstream, length},
              scratch.columns, length);
      T* images = to + i * c.group * c.size.image_size();
      for (std::int64_t image = 0; image < count; ++image)
        columns_to_image(c.size, scratch.columns + image * c.size.positions(), length, scratch.padded,
                         images + image * c.size.image_size());
    }
  });
}

/// gradient x columns^T, summed over the images: within up to kParts parts of the batch first, then over the parts,
/// both in order.
template <class T> void weight_gradient(const Convolution& c, const T* gradient, const T* input, T* to) {
  constexpr std::int64_t kParts = 8;
  constexpr std::int64_t kMostScratch = std::int64_t{1} << 24U;  // elements
  const std::int64_t weights = c.size.out_channels * c.size.taps();
  const std::int64_t wanted = std::clamp<std::int64_t>(kMostScratch / weights, 1, std::min(kParts, c.groups()));
  const std::int64_t per_part = divide_up(c.groups(), wanted);
  const std::int64_t parts = divide_up(c.groups(), per_part);
  Storage storage(c.device, c.pool, static_cast<std::size_t>((parts - 1) * weights) * sizeof(T));
  T* const partial = reinterpret_cast<T*>(storage.data());
  const auto sum_of = [&](std::int64_t part) { return part == 0 ? to : partial + (part - 1) * weights; };
  c.threads.parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    Scratch<T> scratch(c);
    for (std::int64_t part = begin; part < end; ++part)
      for (std::int64_t i = part * per_part; i < std::min(c.groups(), (part + 1) * per_part); ++i) {
        const std::int64_t count = c.in_group(i);
        const std::int64_t length = count * c.size.positions();
        const T* seen = columns_of(c, input + i * c.group * c.size.image_size(), count, scratch);
        const T* upstream = join_images(c, gradient + i * c.group * c.output_size(), count, scratch.joined);
        gemm<T>(c.size.out_channels, c.size.taps(), length, {upstream, length}, {seen, length, true}, sum_of(part),
                c.size.taps(), i > part * per_part);
      }
  });
  constexpr std::int64_t kGrain = 16384;
  c.threads.parallel_for(weights, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = 1; part < parts; ++part)
      for (std::int64_t i = begin; i < end; ++i) to[i] += sum_of(part)[i];
  });
}

}  // namespace

void CpuBackend::conv2d(const Conv2dGeometry& geometry, const Array& input, const Array& weight, const Array& output) {
  stream(output.device())
      .launch(
          "conv2d",
          [geometry, this](const Array& x, const Array& w, const Array& y) {
            const Convolution convolution(geometry, x, w, y, *this);
            visit_floating(y.dtype(), [&]<class T>(std::type_identity<T>) {
              forward(convolution, x.data<T>(), w.data<T>(), y.data<T>());
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
            const Convolution convolution(geometry, dx, w, dy, *this);
            visit_floating(dx.dtype(), [&]<class T>(std::type_identity<T>) {
              tutti::input_gradient(convolution, dy.data<T>(), w.data<T>(), dx.data<T>());
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
            const Convolution convolution(geometry, x, dw, dy, *this);
            visit_floating(dw.dtype(), [&]<class T>(std::type_identity<T>) {
              tutti::weight_gradient(convolution, dy.data<T>(), x.data<T>(), dw.data<T>());
            });
          },
          gradient, input, weight_gradient);
}

}  // namespace tutti
