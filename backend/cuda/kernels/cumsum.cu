// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/cumsum.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>

#include <type_traits>

namespace tutti::cuda_kernels {
namespace {

/// What a scan finds of the elements up to each. `joined` takes the earlier ones first; it is associative.
template <class T> struct Sums {
  using Input = T;
  using Output = T;
  /// Unsigned, so that integers wrap by the language's rules.
  using Found = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
  TUTTI_HOST_DEVICE static Found none() { return 0; }
  TUTTI_HOST_DEVICE static Found of(T x, std::int64_t) { return static_cast<Found>(x); }
  TUTTI_HOST_DEVICE static Found joined(const Found& a, const Found& b) { return a + b; }
  TUTTI_HOST_DEVICE static T result(const Found& sum) { return static_cast<T>(sum); }
};

/// The last of equals; NaN wins.
template <class T, bool largest> struct Bests {
  using Input = T;
  using Output = std::int64_t;
  struct Found {
    T value;
    std::int64_t place;  // -1: of nothing
  };
  TUTTI_HOST_DEVICE static Found none() { return {T(0), -1}; }
  TUTTI_HOST_DEVICE static Found of(T x, std::int64_t i) { return {x, i}; }
  TUTTI_HOST_DEVICE static Found joined(const Found& a, const Found& b) {
    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
    const bool beats = largest ? a.value > b.value : a.value < b.value;
    return beats || (a.value != a.value && b.value == b.value) ? a : b;
  }
  TUTTI_HOST_DEVICE static std::int64_t result(const Found& best) { return best.place; }
};

/// The steps that a line is walked in.
struct Walk {
  std::int64_t first;
  std::int64_t step;

  TUTTI_HOST_DEVICE Walk(const AxisLines& lines, std::int64_t line, bool reverse)
      : first(lines.first(line) + (reverse ? (lines.length - 1) * lines.inner : 0)),
        step(reverse ? -lines.inner : lines.inner) {}
  TUTTI_HOST_DEVICE std::int64_t operator[](std::int64_t i) const { return first + i * step; }
};

template <class Scan> __global__ void __launch_bounds__(kThreads)
    scan_short_lines(const AxisLines lines, bool reverse, const typename Scan::Input* __restrict__ from,
                     typename Scan::Output* __restrict__ to) {
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t line = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; line < lines.count; line += threads) {
    const Walk walk(lines, line, reverse);
    typename Scan::Found found = Scan::none();
    for (std::int64_t i = 0; i < lines.length; ++i) {
      found = Scan::joined(found, Scan::of(from[walk[i]], i));
      to[walk[i]] = Scan::result(found);
    }
  }
}

/// Elements that a thread of a long line joins by itself.
constexpr std::int64_t kTogether = 4;

template <class Scan> __global__ void __launch_bounds__(kThreads)
    scan_long_lines(const AxisLines lines, bool reverse, const typename Scan::Input* __restrict__ from,
                    typename Scan::Output* __restrict__ to) {
  using Found = typename Scan::Found;
  __shared__ Found shared[kThreads];
  for (std::int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
    const Walk walk(lines, line, reverse);
    Found before = Scan::none();  // of the pieces that lie behind
    for (std::int64_t piece = 0; piece < lines.length; piece += kThreads * kTogether) {
      const std::int64_t begin = piece + threadIdx.x * kTogether;
      Found own[kTogether];
      Found found = Scan::none();
      for (std::int64_t i = 0; i < kTogether; ++i) {
        if (begin + i < lines.length) found = Scan::joined(found, Scan::of(from[walk[begin + i]], begin + i));
        own[i] = found;
      }
      // Each thread joins what the threads before it found, twice as many at each step.
      shared[threadIdx.x] = found;
      __syncthreads();
      for (std::uint32_t distance = 1; distance < kThreads; distance *= 2) {
        const Found left = threadIdx.x >= distance ? shared[threadIdx.x - distance] : Scan::none();
        __syncthreads();
        shared[threadIdx.x] = Scan::joined(left, shared[threadIdx.x]);
        __syncthreads();
      }
      const Found start = Scan::joined(before, threadIdx.x > 0 ? shared[threadIdx.x - 1] : Scan::none());
      for (std::int64_t i = 0; i < kTogether; ++i)
        if (begin + i < lines.length) to[walk[begin + i]] = Scan::result(Scan::joined(start, own[i]));
      before = Scan::joined(before, shared[kThreads - 1]);
      __syncthreads();
    }
  }
}

template <class Scan>
void launch_scan(cudaStream_t stream, const AxisLines& lines, bool reverse, const void* from, void* to) {
  const auto* const source = static_cast<const typename Scan::Input*>(from);
  auto* const target = static_cast<typename Scan::Output*>(to);
  if (lines.length <= kShortSum)
    launch(scan_short_lines<Scan>, blocks_for(lines.count), kThreads, stream, lines, reverse, source, target);
  else
    launch(scan_long_lines<Scan>, blocks_for(lines.count, 1), kThreads, stream, lines, reverse, source, target);
}

}  // namespace

void launch_cumsum(cudaStream_t stream, DType dtype, const AxisLines& lines, bool reverse, const void* from, void* to) {
  visit_computed_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>) launch_scan<Sums<T>>(stream, lines, reverse, from, to);
  });
}

void launch_running_arg(cudaStream_t stream, ArgReduction kind, DType dtype, const AxisLines& lines, const void* from,
                        std::int64_t* to) {
  visit_computed_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>) {
      if (kind == ArgReduction::arg_max)
        launch_scan<Bests<T, true>>(stream, lines, false, from, to);
      else
        launch_scan<Bests<T, false>>(stream, lines, false, from, to);
    }
  });
}

}  // namespace tutti::cuda_kernels
