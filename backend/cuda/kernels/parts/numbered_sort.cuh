// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sorting of numbers by their keys, as the kernels of scatter and of argsort do it.

#include <tutti/backend/cuda/kernels/parts/launch_configuration.h>
#include <tutti/backend/cuda/kernels/parts/strided_axes.h>

#include <cub/device/device_radix_sort.cuh>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tutti::cuda_kernels {

/// How a sort's workspace is shared out: what is sorted, before and after, then what the sort needs.
struct NumberedSort {
  std::uint64_t* keys;
  std::uint64_t* sorted_keys;
  std::uint32_t* numbers;
  std::uint32_t* sorted_numbers;
  void* rest;
  std::size_t rest_bytes;

  NumberedSort(void* memory, std::size_t memory_bytes, std::int64_t count) {
    const std::int64_t aligned = aligned_count(count);
    keys = static_cast<std::uint64_t*>(memory);
    sorted_keys = keys + aligned;
    numbers = reinterpret_cast<std::uint32_t*>(sorted_keys + aligned);
    sorted_numbers = numbers + aligned;
    rest = sorted_numbers + aligned;
    rest_bytes = memory_bytes - bytes_of_parts(count);
  }

  /// Sorts by the lowest `bits` of the keys; equal keys keep their order.
  cudaError_t sort(std::int64_t count, int bits, cudaStream_t stream) {
    return sort_pairs(rest, rest_bytes, *this, count, bits, stream);
  }

  /// The size of the workspace for `count` keys of that many bits.
  static cudaError_t workspace(std::int64_t count, int bits, std::size_t& bytes) {
    std::size_t sorting = 0;
    const cudaError_t error = sort_pairs(nullptr, sorting, NumberedSort(nullptr, 0, 0), count, bits, nullptr);
    bytes = bytes_of_parts(count) + sorting;
    return error;
  }

 private:
  static std::int64_t aligned_count(std::int64_t count) { return divide_up(count, 32) * 32; }  // parts stay aligned
  static std::size_t bytes_of_parts(std::int64_t count) {
    return static_cast<std::size_t>(aligned_count(count)) * 2 * (sizeof(std::uint64_t) + sizeof(std::uint32_t));
  }
  static cudaError_t sort_pairs(void* memory, std::size_t& bytes, const NumberedSort& parts, std::int64_t count,
                                int bits, cudaStream_t stream) {
    return cub::DeviceRadixSort::SortPairs(memory, bytes, static_cast<const std::uint64_t*>(parts.keys),
                                           parts.sorted_keys, static_cast<const std::uint32_t*>(parts.numbers),
                                           parts.sorted_numbers, static_cast<std::uint32_t>(count), 0, bits, stream);
  }
};

}  // namespace tutti::cuda_kernels
