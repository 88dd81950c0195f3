// SPDX-License-Identifier: Apache-2.0
#pragma once

// CUB's sort as its documentation says it behaves: stable, by some bits of the keys. Its kernels are not ours to test.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <vector>

namespace cub {

struct DeviceRadixSort {
  template <class Key, class Value>
  static cudaError_t SortPairs(void* workspace, std::size_t& bytes, const Key* keys, Key* sorted_keys,
                               const Value* values, Value* sorted_values, std::uint32_t count, int begin_bit,
                               int end_bit, cudaStream_t = nullptr) {
    if (workspace == nullptr) {
      bytes = 3 * count + 1;
      return cudaSuccess;
    }
    if (bytes < 3 * count + 1) return cudaErrorInvalidValue;
    std::memset(workspace, 0x55, bytes);  // all of it is CUB's
    const auto bits = [&](std::uint32_t i) {
      const Key below_end = end_bit < static_cast<int>(8 * sizeof(Key)) ? (Key{1} << end_bit) - 1 : ~Key{0};
      return (keys[i] & below_end) >> begin_bit;
    };
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return bits(a) < bits(b); });
    for (std::uint32_t i = 0; i < count; ++i) {
      sorted_keys[i] = keys[order[i]];
      sorted_values[i] = values[order[i]];
    }
    return cudaSuccess;
  }
};

}  // namespace cub
