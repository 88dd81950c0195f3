// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/random.h>

#include <tutti/backend/cuda/kernels/launch.cuh>
#include <tutti/backend/philox.h>

namespace tutti::cuda_kernels {
namespace {

template <class T> struct alignas(16) DrawnVector {
  Drawn<T> drawn;
};

/// A thread takes what one counter gives, 16 bytes. `to` is where the first counter's first element would stand, of
/// which `skipped` are not wanted.
template <class T> __global__ void __launch_bounds__(kThreads)
    draw_elements(const __grid_constant__ RandomCall call, std::uint64_t first_counter, T* to, std::uint64_t skipped,
                  std::uint64_t end, bool aligned) {
  constexpr std::uint64_t kElements = Drawn<T>::kElements;
  const std::uint64_t threads = static_cast<std::uint64_t>(gridDim.x) * kThreads;
  std::uint64_t counter = static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; counter * kElements < end; counter += threads) {
    const Drawn<T> drawn = draw<T>(call, first_counter + counter);
    const std::uint64_t begin = counter * kElements;
    if (aligned && begin >= skipped && begin + kElements <= end) {
      *reinterpret_cast<DrawnVector<T>*>(to + begin) = {drawn};
    } else {
      TUTTI_UNROLL
      for (std::uint64_t i = 0; i < kElements; ++i)
        if (begin + i >= skipped && begin + i < end) to[begin + i] = drawn.element[i];
    }
  }
}

template <class T> void draw_array(cudaStream_t stream, const RandomCall& call, std::byte* to, std::int64_t size) {
  constexpr std::uint64_t kElements = Drawn<T>::kElements;
  const std::uint64_t skipped = call.offset % kElements;
  const std::uint64_t end = skipped + static_cast<std::uint64_t>(size);
  const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(to) - skipped * sizeof(T);
  const auto counters = static_cast<std::int64_t>((end + kElements - 1) / kElements);
  launch(draw_elements<T>, blocks_for(counters), kThreads, stream, call, call.offset / kElements,
         reinterpret_cast<T*>(start), skipped, end, start % 16 == 0);
}

}  // namespace

void launch_random(cudaStream_t stream, DType dtype, const RandomCall& call, std::byte* to, std::int64_t size) {
  if (dtype == DType::f64)
    draw_array<double>(stream, call, to, size);
  else
    draw_array<float>(stream, call, to, size);
}

}  // namespace tutti::cuda_kernels
