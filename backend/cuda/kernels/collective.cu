// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/collective.h>

#include <tutti/backend/cuda/kernels/launch.cuh>

#include <algorithm>
#include <type_traits>

namespace tutti::cuda_kernels {
namespace {

constexpr std::int64_t kFewBlocks = 1024;  // the grid strides on: these kernels run beside others

// Elements that are read and written at once: 16 bytes.
template <class T> constexpr int kLanes = 16 / sizeof(T);
template <class T> struct alignas(16) Lanes {
  T value[kLanes<T>];
};

template <class T, class F>
__global__ void __launch_bounds__(kThreads) update(T* values, const T* other, std::int64_t count, F f) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t whole = count / kLanes<T>;
  for (std::int64_t i = first; i < whole; i += stride) {
    Lanes<T> mine = reinterpret_cast<const Lanes<T>*>(values)[i];
    const Lanes<T> theirs = reinterpret_cast<const Lanes<T>*>(other)[i];
    for (int lane = 0; lane < kLanes<T>; ++lane) mine.value[lane] = f(mine.value[lane], theirs.value[lane]);
    reinterpret_cast<Lanes<T>*>(values)[i] = mine;
  }
  for (std::int64_t i = whole * kLanes<T> + first; i < count; i += stride) values[i] = f(values[i], other[i]);
}

// Slices begin at any element: those go one by one.
template <class T, class F>
__global__ void __launch_bounds__(kThreads) update_unaligned(T* values, const T* other, std::int64_t count, F f) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    values[i] = f(values[i], other[i]);
}

template <class T, class F> void run(cudaStream_t stream, T* values, const T* other, std::int64_t count, F f) {
  if (count == 0) return;
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(values) % 16 == 0 && reinterpret_cast<std::uintptr_t>(other) % 16 == 0;
  const std::int64_t work = aligned ? (count + kLanes<T> - 1) / kLanes<T> : count;
  const auto blocks = static_cast<unsigned>(std::min(kFewBlocks, (work + kThreads - 1) / kThreads));
  if (aligned)
    launch(update<T, F>, blocks, kThreads, stream, values, other, count, f);
  else
    launch(update_unaligned<T, F>, blocks, kThreads, stream, values, other, count, f);
}

template <class T> struct Quotient {
  T denominator;
  __device__ T operator()(T value, T) const { return value / denominator; }
};
template <class T> struct Sum {
  __device__ T operator()(T a, T b) const { return a + b; }
};
// NaN wins: it is unequal to itself.
template <class T> struct Larger {
  __device__ T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};
template <class T> struct Smaller {
  __device__ T operator()(T a, T b) const { return a < b || a != a ? a : b; }
};

}  // namespace

void launch_divide(cudaStream_t stream, DType dtype, void* values, std::int64_t count, double denominator) {
  if (denominator == 1.0) return;
  visit_computed_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>) {
      T* array = static_cast<T*>(values);
      run<T>(stream, array, array, count, Quotient<T>{static_cast<T>(denominator)});
    }
  });
}

void launch_combine(cudaStream_t stream, Combination combination, DType dtype, void* values, const void* other,
                    std::int64_t count) {
  visit_computed_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>) {
      T* mine = static_cast<T*>(values);
      const T* theirs = static_cast<const T*>(other);
      switch (combination) {
        case Combination::sum: return run<T>(stream, mine, theirs, count, Sum<T>{});
        case Combination::max: return run<T>(stream, mine, theirs, count, Larger<T>{});
        case Combination::min: return run<T>(stream, mine, theirs, count, Smaller<T>{});
      }
    }
  });
}

}  // namespace tutti::cuda_kernels
