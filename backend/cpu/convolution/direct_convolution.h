// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/convolution/sorted_planes.h>
#include <tutti/backend/memory/storage.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tutti {

/// Convolutions of one group of channels of one image without columns and matrix products, which are too narrow where a
/// group has few channels (depthwise: one). Each row of a result is summed tap by tap in registers. An object is one
/// thread's.
template <class T> class DirectConvolution {
 public:
  DirectConvolution(const ConvolutionSizes& of_group, Device, MemoryPool&);

  void forward(const T* image, const T* weight, T* output);
  void input_gradient(const T* gradient, const T* weight, T* image);
  void weight_gradient(const T* gradient, const T* image, T* weight);  ///< added to what the weight holds

 private:
  /// The taps that read the elements of one channel whose rows and columns leave the same remainders by the strides.
  struct Taps {
    std::vector<std::int64_t> offsets;
    std::vector<T> weights;
  };

  /// Elements of the device's pool, zeros when they are first asked for.
  class Zeroed {
   public:
    Zeroed(Device device, MemoryPool& pool) : device_(device), pool_(&pool) {}
    void make(std::int64_t elements);
    T* data() { return reinterpret_cast<T*>(storage_->data()); }

   private:
    Device device_;
    MemoryPool* pool_;
    std::optional<Storage> storage_;
  };

  void sort_image(const T* image);
  void widen_gradient(const T* gradient);
  void collect_taps(std::int64_t channel, std::int64_t row, std::int64_t column, const T* weight);
  void gather_row(std::int64_t y, const PhaseColumns&, T* row);

  ConvolutionSizes size_;
  SortedPlanes planes_;
  Zeroed image_;                       // padded image in the order of `planes_`; zeros in the padding
  std::vector<std::int64_t> offsets_;  // places of taps (channel, r, s) in `image_`
  // The gradient with zeros before and after its rows and columns, so that taps may read beside it.
  Zeroed gradient_;
  std::int64_t rows_before_;
  std::int64_t columns_before_;
  std::int64_t rows_;
  std::int64_t row_length_;
  Taps taps_;
  std::vector<T> row_;
};

extern template class DirectConvolution<float>;
extern template class DirectConvolution<double>;

}  // namespace tutti
