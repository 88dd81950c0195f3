// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/cumsum.h>

#include <tutti/backend/cuda/kernels/launch.cuh>

#include <type_traits>

namespace tutti::cuda_kernels {
namespace {

/// Unsigned, so that integers wrap by the language's rules.
template <class T> using RunningSum = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

/// The steps that a line is walked in.
struct Walk {
  std::int64_t first;
  std::int64_t step;

  TUTTI_HOST_DEVICE Walk(const AxisLines& lines, std::int64_t line, bool reverse)
      : first(lines.first(line) + (reverse ? (lines.length - 1) * lines.inner : 0)),
        step(reverse ? -lines.inner : lines.inner) {}
  TUTTI_HOST_DEVICE std::int64_t operator[](std::int64_t i) const { return first + i * step; }
};

template <class T> __global__ void __launch_bounds__(kThreads)
    sum_short_lines(const AxisLines lines, bool reverse, const T* __restrict__ from, T* __restrict__ to) {
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t line = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; line < lines.count; line += threads) {
    const Walk walk(lines, line, reverse);
    RunningSum<T> sum = 0;
    for (std::int64_t i = 0; i < lines.length; ++i) {
      sum += static_cast<RunningSum<T>>(from[walk[i]]);
      to[walk[i]] = static_cast<T>(sum);
    }
  }
}

/// Elements that a thread of a long line adds by itself.
constexpr std::int64_t kTogether = 4;

template <class T> __global__ void __launch_bounds__(kThreads)
    sum_long_lines(const AxisLines lines, bool reverse, const T* __restrict__ from, T* __restrict__ to) {
  __shared__ RunningSum<T> sums[kThreads];
  for (std::int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
    const Walk walk(lines, line, reverse);
    RunningSum<T> before = 0;  // of the pieces that lie behind
    for (std::int64_t piece = 0; piece < lines.length; piece += kThreads * kTogether) {
      const std::int64_t begin = piece + threadIdx.x * kTogether;
      RunningSum<T> own[kTogether];
      RunningSum<T> sum = 0;
      for (std::int64_t i = 0; i < kTogether; ++i) {
        if (begin + i < lines.length) sum += static_cast<RunningSum<T>>(from[walk[begin + i]]);
        own[i] = sum;
      }
      // Each thread adds the sums of the threads before it, twice as many at each step.
      sums[threadIdx.x] = sum;
      __syncthreads();
      for (std::uint32_t distance = 1; distance < kThreads; distance *= 2) {
        const RunningSum<T> left = threadIdx.x >= distance ? sums[threadIdx.x - distance] : RunningSum<T>(0);
        __syncthreads();
        sums[threadIdx.x] += left;
        __syncthreads();
      }
      const RunningSum<T> start = before + (threadIdx.x > 0 ? sums[threadIdx.x - 1] : RunningSum<T>(0));
      for (std::int64_t i = 0; i < kTogether; ++i)
        if (begin + i < lines.length) to[walk[begin + i]] = static_cast<T>(start + own[i]);
      before += sums[kThreads - 1];
      __syncthreads();
    }
  }
}

}  // namespace

void launch_cumsum(cudaStream_t stream, DType dtype, const AxisLines& lines, bool reverse, const void* from, void* to) {
  visit_computed_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>) {
      const auto* const source = static_cast<const T*>(from);
      auto* const target = static_cast<T*>(to);
      if (lines.length <= kShortSum)
        launch(sum_short_lines<T>, blocks_for(lines.count), kThreads, stream, lines, reverse, source, target);
      else
        launch(sum_long_lines<T>, blocks_for(lines.count, 1), kThreads, stream, lines, reverse, source, target);
    }
  });
}

}  // namespace tutti::cuda_kernels
