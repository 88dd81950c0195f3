// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/convolution/direct_convolution.h>

#include <tutti/backend/cpu/packs/pack_loops.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace tutti {
namespace {

/// to[x] = sum over taps of weight x from[offset + x]; up to a pack behind the last element is read.
template <class T>
void sum_taps(const T* from, const std::vector<std::int64_t>& offsets, const T* weights, T* to, std::int64_t count) {
  for_each_pack<T>(0, count, [&](std::int64_t x, std::int64_t lanes) {
    Pack<T> sum(0);
    for (std::size_t tap = 0; tap < offsets.size(); ++tap)
      sum = sum + Pack<T>(weights[tap]) * Pack<T>::load(from + offsets[tap] + x);
    store_up_to(sum, to + x, lanes);
  });
}

/// Of `rows` rows: sums[i] += sum over x of gradient[x] x from[offsets[i] + x], for `taps` taps that share the pass.
template <class T, std::size_t taps> void sum_products(const T* gradient, std::int64_t width, std::int64_t rows,
                                                       const T* from, std::int64_t step, const std::int64_t* offsets,
                                                       T* sums) {
  std::array<Pack<T>, taps> lanes_of;
  lanes_of.fill(Pack<T>(0));
  for (std::int64_t y = 0; y < rows; ++y)
    for_each_pack<T>(0, width, [&](std::int64_t x, std::int64_t count) {
      const Pack<T> upstream = load_up_to(gradient + y * width + x, count);
      for (std::size_t i = 0; i < taps; ++i)
        lanes_of[i] = lanes_of[i] + upstream * load_up_to(from + y * step + offsets[i] + x, count);
    });
  for (std::size_t i = 0; i < taps; ++i) {
    std::array<T, Pack<T>::kLanes> lanes;
    lanes_of[i].store(lanes.data());
    for (const T lane : lanes) sums[i] += lane;
  }
}

template <std::int64_t stride, class T> void copy_every(const T* from, T* to, std::int64_t count) {
  for (std::int64_t x = 0; x < count; ++x) to[x] = from[x * stride];
}
/// Strides that the compiler knows are worth several times others.
template <class T> void copy_every(const T* from, std::int64_t stride, T* to, std::int64_t count) {
  if (stride == 1) return copy_every<1>(from, to, count);
  if (stride == 2) return copy_every<2>(from, to, count);
  for (std::int64_t x = 0; x < count; ++x) to[x] = from[x * stride];
}

}  // namespace

template <class T> void DirectConvolution<T>::Zeroed::make(std::int64_t elements) {
  if (storage_) return;
  storage_.emplace(device_, *pool_, static_cast<std::size_t>(elements) * sizeof(T));
  std::fill_n(data(), elements, T(0));
}

template <class T>
DirectConvolution<T>::DirectConvolution(const ConvolutionSizes& of_group, Device device, MemoryPool& pool)
    : size_(of_group), planes_(of_group), image_(device, pool), gradient_(device, pool) {
  const auto& dilation = size_.geometry.dilation;
  for (std::int64_t channel = 0; channel < size_.channels; ++channel)
    for (std::int64_t r = 0; r < size_.kernel_height; ++r)
      for (std::int64_t s = 0; s < size_.kernel_width; ++s)
        offsets_.push_back(planes_.offset(channel, r * dilation[0], s * dilation[1]));
  rows_before_ = (size_.kernel_height - 1) * dilation[0] / size_.geometry.stride[0];
  columns_before_ = (size_.kernel_width - 1) * dilation[1] / size_.geometry.stride[1];
  rows_ = rows_before_ + (size_.padded_height() - 1) / size_.geometry.stride[0] + 1;
  row_length_ = columns_before_ + planes_.phase_length;
}

/// Into `image_`, whose padding stays as it is.
template <class T> void DirectConvolution<T>::sort_image(const T* image) {
  image_.make(planes_.elements());
  for (std::int64_t phase = 0; phase < planes_.phases; ++phase) {
    const PhaseColumns columns(size_, phase);
    for (std::int64_t channel = 0; channel < size_.channels; ++channel)
      for (std::int64_t y = 0; y < size_.height; ++y)
        copy_every(image + (channel * size_.height + y) * size_.width + columns.first, planes_.phases,
                   image_.data() + planes_.offset(channel, y + size_.geometry.padding[0], phase) + columns.place,
                   columns.count);
  }
}

template <class T> void DirectConvolution<T>::forward(const T* image, const T* weight, T* output) {
  sort_image(image);
  const std::int64_t step = planes_.row_length() * size_.geometry.stride[0];
  for (std::int64_t k = 0; k < size_.out_channels; ++k)
    for (std::int64_t y = 0; y < size_.out_height; ++y)
      sum_taps(image_.data() + y * step, offsets_, weight + k * size_.taps(),
               output + (k * size_.out_height + y) * size_.out_width, size_.out_width);
}

template <class T> void DirectConvolution<T>::widen_gradient(const T* gradient) {
  gradient_.make(size_.out_channels * rows_ * row_length_ + SortedPlanes::kSlack);
  for (std::int64_t k = 0; k < size_.out_channels; ++k)
    for (std::int64_t y = 0; y < size_.out_height; ++y)
      std::copy_n(gradient + (k * size_.out_height + y) * size_.out_width, size_.out_width,
                  gradient_.data() + (k * rows_ + rows_before_ + y) * row_length_ + columns_before_);
}

/// Element i of a padded axis was read by tap r for output (i - r * dilation) / stride, where that is whole: r *
/// dilation and i leave the same remainder.
template <class T>
void DirectConvolution<T>::collect_taps(std::int64_t channel, std::int64_t row, std::int64_t column, const T* weight) {
  taps_.offsets.clear();
  taps_.weights.clear();
  const auto& stride = size_.geometry.stride;
  const auto& dilation = size_.geometry.dilation;
  for (std::int64_t k = 0; k < size_.out_channels; ++k)
    for (std::int64_t r = 0; r < size_.kernel_height; ++r)
      for (std::int64_t s = 0; s < size_.kernel_width; ++s) {
        if (r * dilation[0] % stride[0] != row || s * dilation[1] % stride[1] != column) continue;
        taps_.offsets.push_back((k * rows_ + rows_before_ - r * dilation[0] / stride[0]) * row_length_ +
                                columns_before_ - s * dilation[1] / stride[1]);
        taps_.weights.push_back(
            weight[((k * size_.channels + channel) * size_.kernel_height + r) * size_.kernel_width + s]);
      }
}

/// Row `y` of an image's gradient, in the columns of a phase.
template <class T> void DirectConvolution<T>::gather_row(std::int64_t y, const PhaseColumns& columns, T* row) {
  const std::int64_t stride = size_.geometry.stride[1];
  const std::int64_t window = (y + size_.geometry.padding[0]) / size_.geometry.stride[0];
  T* const sums = stride == 1 ? row : row_.data();
  sum_taps(gradient_.data() + window * row_length_ + columns.place, taps_.offsets, taps_.weights.data(), sums,
           columns.count);
  if (stride > 1)
    for (std::int64_t x = 0; x < columns.count; ++x) row[columns.first + x * stride] = sums[x];
}

template <class T> void DirectConvolution<T>::input_gradient(const T* gradient, const T* weight, T* image) {
  widen_gradient(gradient);
  row_.resize(static_cast<std::size_t>(size_.width));
  const auto& stride = size_.geometry.stride;
  for (std::int64_t channel = 0; channel < size_.channels; ++channel)
    for (std::int64_t first = 0; first < std::min(stride[0], size_.height); ++first)
      for (std::int64_t phase = 0; phase < stride[1]; ++phase) {
        const PhaseColumns columns(size_, phase);
        collect_taps(channel, (first + size_.geometry.padding[0]) % stride[0], phase, weight);
        for (std::int64_t y = first; y < size_.height; y += stride[0])
          gather_row(y, columns, image + (channel * size_.height + y) * size_.width);
      }
}

template <class T> void DirectConvolution<T>::weight_gradient(const T* gradient, const T* image, T* weight) {
  sort_image(image);
  constexpr std::array kSums{sum_products<T, 1>, sum_products<T, 2>, sum_products<T, 3>, sum_products<T, 4>,
                             sum_products<T, 5>};
  const std::int64_t passes = (size_.taps() - 1) / std::ssize(kSums) + 1;
  const std::int64_t step = planes_.row_length() * size_.geometry.stride[0];
  for (std::int64_t k = 0; k < size_.out_channels; ++k)
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      const std::int64_t begin = pass * size_.taps() / passes;
      const std::int64_t end = (pass + 1) * size_.taps() / passes;
      kSums[static_cast<std::size_t>(end - begin - 1)](gradient + k * size_.positions(), size_.out_width,
                                                       size_.out_height, image_.data(), step, &offsets_[begin],
                                                       weight + k * size_.taps() + begin);
    }
}

template class DirectConvolution<float>;
template class DirectConvolution<double>;

}  // namespace tutti
