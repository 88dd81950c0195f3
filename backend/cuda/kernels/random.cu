// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/random.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>
#include <tutti/backend/formulas/philox.h>

namespace tutti::cuda_kernels {
namespace {

template <class T> struct alignas(16) DrawnVector {
  Drawn<T> drawn;
};

/// A thread takes what one counter gives, 16 bytes. The first gives `skipped` elements before the first.
template <class T> __global__ void __launch_bounds__(kThreads)
    draw_elements(const __grid_constant__ RandomCall given, T* to, std::uint64_t size) {
  constexpr std::uint64_t kElements = Drawn<T>::kElements;
  const RandomCall call = placed(given);
  const std::uint64_t skipped = call.offset % kElements;
  const std::uint64_t first_counter = call.offset / kElements;
  const std::uint64_t ahead = (kElements - skipped) % kElements;  // up to the first whole counter
  const bool aligned = reinterpret_cast<std::uintptr_t>(to + ahead) % 16 == 0;
  const std::uint64_t end = skipped + size;
  const std::uint64_t threads = static_cast<std::uint64_t>(gridDim.x) * kThreads;
  std::uint64_t counter = static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; counter * kElements < end; counter += threads) {
    const Drawn<T> drawn = draw<T>(call, first_counter + counter);
    const std::uint64_t begin = counter * kElements;
    if (aligned && begin >= skipped && begin + kElements <= end) {
      *reinterpret_cast<DrawnVector<T>*>(to + (begin - skipped)) = {drawn};
    } else {
      TUTTI_UNROLL
      for (std::uint64_t i = 0; i < kElements; ++i)
        if (begin + i >= skipped && begin + i < end) to[begin + i - skipped] = drawn.element[i];
    }
  }
}

template <class T> void draw_array(cudaStream_t stream, const RandomCall& call, std::byte* to, std::int64_t size) {
  constexpr auto kElements = static_cast<std::int64_t>(Drawn<T>::kElements);
  const std::int64_t counters = (size + 2 * (kElements - 1)) / kElements;  // wherever the draw begins
  launch(draw_elements<T>, blocks_for(counters), kThreads, stream, call, reinterpret_cast<T*>(to),
         static_cast<std::uint64_t>(size));
}

}  // namespace

void launch_random(cudaStream_t stream, DType dtype, const RandomCall& call, std::byte* to, std::int64_t size) {
  if (dtype == DType::f64)
    draw_array<double>(stream, call, to, size);
  else
    draw_array<float>(stream, call, to, size);
}

}  // namespace tutti::cuda_kernels
