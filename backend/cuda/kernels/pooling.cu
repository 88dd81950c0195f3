// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/pooling.h>

#include <tutti/backend/cuda/kernels/launch.cuh>

namespace tutti::cuda_kernels {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    pool_windows(const Pooling pooling, const T* __restrict__ from, T* __restrict__ maxima,
                 std::int64_t* __restrict__ places) {
  const std::int64_t windows = pooling.planes * pooling.rows.out_length * pooling.columns.out_length;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < windows; i += step) {
    const Division line = divide(i, pooling.columns.out_length);
    const Division plane = divide(line.quotient, pooling.rows.out_length);
    const T* const image = from + plane.quotient * pooling.rows.length * pooling.columns.length;
    const LargestElement<T> largest = largest_in_window(pooling, image, plane.remainder, line.remainder);
    maxima[i] = largest.value;
    places[i] = largest.place;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    pass_back(const Pooling pooling, const T* __restrict__ gradient, const std::int64_t* __restrict__ places,
              T* __restrict__ to) {
  const std::int64_t elements = pooling.planes * pooling.rows.length * pooling.columns.length;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    const Division line = divide(i, pooling.columns.length);
    const Division plane = divide(line.quotient, pooling.rows.length);
    const std::int64_t windows = plane.quotient * pooling.rows.out_length * pooling.columns.out_length;
    to[i] = passed_back(pooling, gradient + windows, places + windows, plane.remainder, line.remainder);
  }
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
  const std::int64_t windows = pooling.planes * pooling.rows.out_length * pooling.columns.out_length;
  visit_floating(dtype, [&]<class T>(std::type_identity<T>) {
    launch(pool_windows<T>, blocks_for(windows), kThreads, stream, pooling, static_cast<const T*>(from),
           static_cast<T*>(maxima), places);
  });
}

void launch_max_pool2d_gradient(cudaStream_t stream, DType dtype, const Pooling& pooling, const void* gradient,
                                const std::int64_t* places, void* to) {
  const std::int64_t elements = pooling.planes * pooling.rows.length * pooling.columns.length;
  visit_floating(dtype, [&]<class T>(std::type_identity<T>) {
    launch(pass_back<T>, blocks_for(elements), kThreads, stream, pooling, static_cast<const T*>(gradient), places,
           static_cast<T*>(to));
  });
}

}  // namespace tutti::cuda_kernels
