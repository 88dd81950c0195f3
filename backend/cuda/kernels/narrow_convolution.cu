// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/convolution.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>

namespace tutti::cuda_kernels {
namespace {

/// A thread computes an element of the result. Of the rows, a few at a time are worked out for all threads.
template <class Product, class T> __global__ void __launch_bounds__(kThreads)
    sum_alone(const Product product, const T* __restrict__ lhs, const T* __restrict__ rhs, T* __restrict__ to) {
  constexpr int kRows = 64;
  __shared__ typename Product::Row rows[kRows];
  const std::int64_t count = product.c.groups * product.m() * product.n();
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kThreads; first < count; first += step) {
    const bool exists = first + threadIdx.x < count;
    const Place at(product, exists ? first + threadIdx.x : 0);
    const typename Product::Column column = product.column(at.n);
    const T* const left = lhs + at.group * product.lhs_step();
    const T* const right = rhs + at.group * product.rhs_step();
    T sum(0);
    for (std::int64_t begin = 0; begin < product.k(); begin += kRows) {
      const std::int64_t end = begin + kRows < product.k() ? begin + kRows : product.k();
      if (begin + threadIdx.x < end) rows[threadIdx.x] = product.row(begin + threadIdx.x);
      __syncthreads();
      for (std::int64_t k = begin; k < end; ++k) {
        const std::int64_t offset = product.rhs(rows[k - begin], column);
        if (offset != kNone) sum += left[product.lhs(at.m, k, rows[k - begin])] * right[offset];
      }
      __syncthreads();
    }
    if (exists) to[at.group * product.result_step() + product.result(at.m, at.n)] = sum;
  }
}

/// A block computes an element of the result: neighbours read along k, and their sums are added up pairwise.
template <class Product, class T> __global__ void __launch_bounds__(kThreads)
    sum_together(const Product product, const T* __restrict__ lhs, const T* __restrict__ rhs, T* __restrict__ to) {
  __shared__ T sums[kThreads];
  const std::int64_t count = product.c.groups * product.m() * product.n();
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const Place at(product, i);
    const typename Product::Column column = product.column(at.n);
    const T* const left = lhs + at.group * product.lhs_step();
    const T* const right = rhs + at.group * product.rhs_step();
    T sum(0);
    for (std::int64_t k = threadIdx.x; k < product.k(); k += kThreads) {
      const typename Product::Row row = product.row(k);
      const std::int64_t offset = product.rhs(row, column);
      if (offset != kNone) sum += left[product.lhs(at.m, k, row)] * right[offset];
    }
    sums[threadIdx.x] = sum;
    for (unsigned half = kThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) to[at.group * product.result_step() + product.result(at.m, at.n)] = sums[0];
    __syncthreads();
  }
}

template <class Product, class T>
void launch_product(cudaStream_t stream, const Product& product, const void* lhs, const void* rhs, void* to) {
  const std::int64_t results = product.c.groups * product.m() * product.n();
  const auto *const left = static_cast<const T*>(lhs), *const right = static_cast<const T*>(rhs);
  if constexpr (Product::kReadsAlongK)
    launch(sum_together<Product, T>, blocks_for(results, 1), kThreads, stream, product, left, right,
           static_cast<T*>(to));
  else
    launch(sum_alone<Product, T>, blocks_for(results), kThreads, stream, product, left, right, static_cast<T*>(to));
}

}  // namespace

template <class Product> void launch_narrow_convolution(cudaStream_t stream, DType dtype, const Product& product,
                                                        const void* lhs, const void* rhs, void* to) {
  if (dtype == DType::f64)
    launch_product<Product, double>(stream, product, lhs, rhs, to);
  else
    launch_product<Product, float>(stream, product, lhs, rhs, to);
}

template void launch_narrow_convolution(cudaStream_t, DType, const ForwardProduct&, const void*, const void*, void*);
template void launch_narrow_convolution(cudaStream_t, DType, const InputGradientProduct&, const void*, const void*,
                                        void*);
template void launch_narrow_convolution(cudaStream_t, DType, const WeightGradientProduct&, const void*, const void*,
                                        void*);

}  // namespace tutti::cuda_kernels
