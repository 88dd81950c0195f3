// SPDX-License-Identifier: Apache-2.0
#pragma once

// Device code: how the threads of a line join what each has found.

#include <tutti/backend/cuda/kernels/parts/line_layout.h>

#include <type_traits>

namespace tutti::cuda_kernels {

/// The value of the thread of the warp whose number differs by the bit `distance`.
template <class T> __device__ T exchange(const T& value, std::uint32_t distance) {
  static_assert(sizeof(T) % sizeof(std::uint32_t) == 0 && std::is_trivially_copyable_v<T>);
  struct Words {
    std::uint32_t at[sizeof(T) / sizeof(std::uint32_t)];
  };
  Words words = __builtin_bit_cast(Words, value);
#pragma unroll
  for (std::uint32_t& word : words.at) word = __shfl_xor_sync(0xffffffffU, word, static_cast<int>(distance));
  return __builtin_bit_cast(T, words);
}

/// The values of a line's lanes, joined in an order that depends on the layout alone; all of its threads get the
/// result. All threads of a block call it together. `combine` is commutative.
template <class Value, class Combine>
__device__ Value combine_line(Value value, const LineLayout& layout, Combine combine) {
  if (layout.adjacent) {
    const std::uint32_t in_warp = layout.lanes < LineLayout::kWarp ? layout.lanes : LineLayout::kWarp;
    for (std::uint32_t distance = in_warp / 2; distance > 0; distance /= 2)
      value = combine(value, exchange(value, distance));
    if (layout.lanes == in_warp) return value;
  }
  // What is left lies `step` threads apart: one value a warp, or one a row of threads.
  alignas(16) __shared__ unsigned char memory[LineLayout::kThreads * sizeof(Value)];
  auto* const shared = reinterpret_cast<Value*>(memory);
  const std::uint32_t step = layout.adjacent ? LineLayout::kWarp : layout.lines;
  const std::uint32_t line = layout.line_of(threadIdx.x);
  const std::uint32_t lane = layout.lane_of(threadIdx.x);
  std::uint32_t count = layout.adjacent ? layout.lanes / LineLayout::kWarp : layout.lanes;
  const std::uint32_t first = layout.adjacent ? line * layout.lanes : line;
  __syncthreads();  // an earlier call may still be reading
  shared[threadIdx.x] = value;
  __syncthreads();
  while (count > 8) {
    count /= 2;
    if (!layout.adjacent && lane < count)
      shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + count * step]);
    __syncthreads();
  }
  value = shared[first];
  for (std::uint32_t i = 1; i < count; ++i) value = combine(value, shared[first + i * step]);
  return value;
}

}  // namespace tutti::cuda_kernels
