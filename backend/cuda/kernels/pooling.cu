// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/pooling.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>

namespace tutti::cuda_kernels {
namespace {

/// Calls `f(i, plane, row, column)` for all i of [planes, rows, columns], a thread for one at a time.
template <class F>
__device__ void for_each_place(std::int64_t planes, std::int64_t rows, std::int64_t columns, const F& f) {
  const std::int64_t count = planes * rows * columns;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const Division line = divide(i, columns);
    const Division plane = divide(line.quotient, rows);
    f(i, plane.quotient, plane.remainder, line.remainder);
  }
}
template <class F> __device__ void for_each_window(const Pooling& pooling, const F& f) {
  for_each_place(pooling.planes, pooling.rows.out_length, pooling.columns.out_length, f);
}
template <class F> __device__ void for_each_element(const Pooling& pooling, const F& f) {
  for_each_place(pooling.planes, pooling.rows.length, pooling.columns.length, f);
}

template <class T> __global__ void __launch_bounds__(kThreads)
    pool_windows(const Pooling pooling, const T* __restrict__ from, T* __restrict__ maxima,
                 std::int64_t* __restrict__ places) {
  for_each_window(pooling, [&](std::int64_t i, std::int64_t plane, std::int64_t row, std::int64_t column) {
    const T* const image = from + plane * pooling.elements();
    const LargestElement<T> largest = largest_in_window(pooling, image, row, column);
    maxima[i] = largest.value;
    places[i] = largest.place;
  });
}

template <class T> __global__ void __launch_bounds__(kThreads)
    pass_back(const Pooling pooling, const T* __restrict__ gradient, const std::int64_t* __restrict__ places,
              T* __restrict__ to) {
  for_each_element(pooling, [&](std::int64_t i, std::int64_t plane, std::int64_t row, std::int64_t column) {
    const std::int64_t windows = plane * pooling.windows();
    to[i] = passed_back(pooling, gradient + windows, places + windows, row, column);
  });
}

template <class T> __global__ void __launch_bounds__(kThreads)
    average_windows(const MeanPooling means, const T* __restrict__ from, T* __restrict__ to) {
  const Pooling& pooling = means.windows;
  for_each_window(pooling, [&](std::int64_t i, std::int64_t plane, std::int64_t row, std::int64_t column) {
    to[i] = mean_of_window(means, from + plane * pooling.elements(), row, column);
  });
}

template <class T> __global__ void __launch_bounds__(kThreads)
    pass_shares_back(const MeanPooling means, const T* __restrict__ gradient, T* __restrict__ to) {
  const Pooling& pooling = means.windows;
  for_each_element(pooling, [&](std::int64_t i, std::int64_t plane, std::int64_t row, std::int64_t column) {
    to[i] = shares_passed_back(means, gradient + plane * pooling.windows(), row, column);
  });
}

template <class F> void visit_floating(DType dtype, F&& f) {
  if (dtype == DType::f64)
    f(std::type_identity<double>{});
  else
    f(std::type_identity<float>{});
}

}  // namespace

void launch_max_pool2d(cudaStream_t stream, DType dtype, const Pooling& pooling, const void* from, void* maxima,
                       std::int64_t* places) {
  const std::int64_t windows = pooling.planes * pooling.windows();
  visit_floating(dtype, [&]<class T>(std::type_identity<T>) {
    launch(pool_windows<T>, blocks_for(windows), kThreads, stream, pooling, static_cast<const T*>(from),
           static_cast<T*>(maxima), places);
  });
}

void launch_max_pool2d_gradient(cudaStream_t stream, DType dtype, const Pooling& pooling, const void* gradient,
                                const std::int64_t* places, void* to) {
  const std::int64_t elements = pooling.planes * pooling.elements();
  visit_floating(dtype, [&]<class T>(std::type_identity<T>) {
    launch(pass_back<T>, blocks_for(elements), kThreads, stream, pooling, static_cast<const T*>(gradient), places,
           static_cast<T*>(to));
  });
}

void launch_avg_pool2d(cudaStream_t stream, DType dtype, const MeanPooling& means, const void* from, void* to) {
  const std::int64_t windows = means.windows.planes * means.windows.windows();
  visit_floating(dtype, [&]<class T>(std::type_identity<T>) {
    launch(average_windows<T>, blocks_for(windows), kThreads, stream, means, static_cast<const T*>(from),
           static_cast<T*>(to));
  });
}

void launch_avg_pool2d_gradient(cudaStream_t stream, DType dtype, const MeanPooling& means, const void* gradient,
                                void* to) {
  const std::int64_t elements = means.windows.planes * means.windows.elements();
  visit_floating(dtype, [&]<class T>(std::type_identity<T>) {
    launch(pass_shares_back<T>, blocks_for(elements), kThreads, stream, means, static_cast<const T*>(gradient),
           static_cast<T*>(to));
  });
}

}  // namespace tutti::cuda_kernels
