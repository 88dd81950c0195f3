// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/dropout.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>
#include <tutti/backend/formulas/philox.h>

namespace tutti::cuda_kernels {
namespace {

constexpr std::uint64_t kTogether = Drawn<float>::kElements;  // by one counter, and by one thread at a time

/// Neighbours in memory that a thread reads and writes together.
template <class T> struct alignas(kTogether * sizeof(T) < 16 ? kTogether * sizeof(T) : 16) Neighbours {
  T at[kTogether];
};

template <class T> TUTTI_HOST_DEVICE bool is_aligned(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Neighbours<T>) == 0;
}

/// The first counter gives `skipped` elements before the first.
template <class T> __global__ void __launch_bounds__(kThreads)
    drop_elements(const __grid_constant__ DropoutCall call, const T* __restrict__ from, std::uint64_t size,
                  T* __restrict__ to, bool* __restrict__ kept) {
  const RandomCall drawing = placed(call.draw);
  const std::uint64_t skipped = drawing.offset % kTogether;
  const std::uint64_t first_counter = drawing.offset / kTogether;
  const std::uint64_t ahead = (kTogether - skipped) % kTogether;  // up to the first whole counter
  const bool aligned = is_aligned(from + ahead) && is_aligned(to + ahead) && is_aligned(kept + ahead);
  const std::uint64_t end = skipped + size;
  const std::uint64_t threads = static_cast<std::uint64_t>(gridDim.x) * kThreads;
  std::uint64_t counter = static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; counter * kTogether < end; counter += threads) {
    const Drawn<float> drawn =
        philox_formulas::uniform<float>(drawing, philox(drawing.seed, drawing.stream, first_counter + counter));
    const std::uint64_t begin = counter * kTogether;
    if (aligned && begin >= skipped && begin + kTogether <= end) {
      const std::uint64_t i = begin - skipped;
      const Neighbours<T> x = *reinterpret_cast<const Neighbours<T>*>(from + i);
      Neighbours<T> y;
      Neighbours<bool> stays;
      TUTTI_UNROLL
      for (std::uint64_t k = 0; k < kTogether; ++k) {
        stays.at[k] = drawn.element[k] < call.keep;
        y.at[k] = scaled_if(stays.at[k], x.at[k], call.factor);
      }
      *reinterpret_cast<Neighbours<T>*>(to + i) = y;
      *reinterpret_cast<Neighbours<bool>*>(kept + i) = stays;
    } else {
      TUTTI_UNROLL
      for (std::uint64_t k = 0; k < kTogether; ++k) {
        if (begin + k < skipped || begin + k >= end) continue;
        const std::uint64_t i = begin + k - skipped;
        const bool stays = drawn.element[k] < call.keep;
        kept[i] = stays;
        to[i] = scaled_if(stays, from[i], call.factor);
      }
    }
  }
}

template <class T> __global__ void __launch_bounds__(kThreads)
    scale_kept(double factor, const bool* __restrict__ kept, const T* __restrict__ from, std::uint64_t size,
               T* __restrict__ to) {
  const bool aligned = is_aligned(from) && is_aligned(to) && is_aligned(kept);
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * kThreads * kTogether;
  std::uint64_t i = (static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x) * kTogether;
  for (; i < size; i += step) {
    if (aligned && i + kTogether <= size) {
      const Neighbours<T> x = *reinterpret_cast<const Neighbours<T>*>(from + i);
      const Neighbours<bool> stays = *reinterpret_cast<const Neighbours<bool>*>(kept + i);
      Neighbours<T> y;
      TUTTI_UNROLL
      for (std::uint64_t k = 0; k < kTogether; ++k) y.at[k] = scaled_if(stays.at[k], x.at[k], factor);
      *reinterpret_cast<Neighbours<T>*>(to + i) = y;
    } else {
      for (std::uint64_t k = i; k < i + kTogether && k < size; ++k) to[k] = scaled_if(kept[k], from[k], factor);
    }
  }
}

/// Blocks for `size` elements, and for what counters give before them.
unsigned blocks_of(std::int64_t size) {
  constexpr auto kEach = static_cast<std::int64_t>(kTogether);
  return blocks_for((size + 2 * (kEach - 1)) / kEach);
}

}  // namespace

void launch_dropout(cudaStream_t stream, DType dtype, const DropoutCall& call, const void* from, std::int64_t size,
                    void* to, bool* kept) {
  visit_any_floating(dtype, [&]<class T>(std::type_identity<T>) {
    launch(drop_elements<T>, blocks_of(size), kThreads, stream, call, static_cast<const T*>(from),
           static_cast<std::uint64_t>(size), static_cast<T*>(to), kept);
  });
}

void launch_scale_kept(cudaStream_t stream, DType dtype, double factor, const bool* kept, const void* from,
                       std::int64_t size, void* to) {
  visit_any_floating(dtype, [&]<class T>(std::type_identity<T>) {
    launch(scale_kept<T>, blocks_of(size), kThreads, stream, factor, kept, static_cast<const T*>(from),
           static_cast<std::uint64_t>(size), static_cast<T*>(to));
  });
}

}  // namespace tutti::cuda_kernels
