// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/sort.h>

#include <tutti/backend/cuda/kernels/launch.cuh>
#include <tutti/backend/sort_key.h>

#include <cub/device/device_radix_sort.cuh>

#include <bit>
#include <utility>

namespace tutti::cuda_kernels {
namespace {

/// Elements are numbered line by line. 32-bit keys have their line in front.
template <class T> __global__ void __launch_bounds__(kThreads)
    list_keys(const SortedLines range, const T* __restrict__ from, std::uint64_t* __restrict__ keys,
              std::uint32_t* __restrict__ numbers) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < range.elements(); i += step) {
    const Division at = divide(i, range.lines.length);
    const T x = from[range.lines.first(range.begin + at.quotient) + at.remainder * range.lines.inner];
    const std::uint64_t line = sizeof(T) == 8 ? 0 : static_cast<std::uint64_t>(at.quotient);
    keys[i] = (sizeof(T) == 8 ? 0 : line << 32U) | sort_key(x, range.descending);
    numbers[i] = static_cast<std::uint32_t>(i);
  }
}

/// The lines of elements that are sorted by their keys alone.
__global__ void __launch_bounds__(kThreads)
    list_lines(const SortedLines range, const std::uint32_t* __restrict__ numbers, std::uint64_t* __restrict__ keys) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < range.elements(); i += step)
    keys[i] = static_cast<std::uint64_t>(divide(numbers[i], range.lines.length).quotient);
}

__global__ void __launch_bounds__(kThreads)
    write_places(const SortedLines range, const std::uint32_t* __restrict__ numbers, std::int64_t* __restrict__ to) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < range.elements(); i += step) {
    const Division at = divide(i, range.lines.length);
    to[range.lines.first(range.begin + at.quotient) + at.remainder * range.lines.inner] =
        divide(numbers[i], range.lines.length).remainder;
  }
}

/// How the workspace is shared out: what is sorted, before and after, then what the sort needs.
struct Workspace {
  std::uint64_t* keys;
  std::uint64_t* sorted_keys;
  std::uint32_t* numbers;
  std::uint32_t* sorted_numbers;
  void* rest;

  Workspace(void* memory, std::int64_t count) {
    count = divide_up(count, 32) * 32;  // parts stay aligned
    keys = static_cast<std::uint64_t*>(memory);
    sorted_keys = keys + count;
    numbers = reinterpret_cast<std::uint32_t*>(sorted_keys + count);
    sorted_numbers = numbers + count;
    rest = sorted_numbers + count;
  }
  static std::size_t bytes(std::int64_t count) {
    return static_cast<std::size_t>(divide_up(count, 32) * 32) * 2 * (sizeof(std::uint64_t) + sizeof(std::uint32_t));
  }
};

int bits_of_lines(const SortedLines& range) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(range.count - 1)));
}

bool has_wide_keys(DType dtype) { return size_of(dtype) == 8; }

cudaError_t sort_pairs(void* memory, std::size_t& bytes, const Workspace& parts, std::int64_t count, int bits,
                       cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(memory, bytes, static_cast<const std::uint64_t*>(parts.keys),
                                         parts.sorted_keys, static_cast<const std::uint32_t*>(parts.numbers),
                                         parts.sorted_numbers, static_cast<std::uint32_t>(count), 0, bits, stream);
}

}  // namespace

cudaError_t arg_sort_workspace(DType dtype, const SortedLines& range, std::size_t& bytes) {
  std::size_t sorting = 0;
  const int bits = has_wide_keys(dtype) ? 64 : 32 + bits_of_lines(range);
  const cudaError_t error = sort_pairs(nullptr, sorting, Workspace(nullptr, 0), range.elements(), bits, nullptr);
  bytes = Workspace::bytes(range.elements()) + sorting;
  return error;
}

cudaError_t launch_arg_sort(cudaStream_t stream, DType dtype, const SortedLines& range, const void* from,
                            std::int64_t* to, void* workspace, std::size_t workspace_bytes) {
  const std::int64_t count = range.elements();
  Workspace parts(workspace, count);
  std::size_t sorting = workspace_bytes - Workspace::bytes(count);
  visit_computed_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>)
      launch(list_keys<T>, blocks_for(count), kThreads, stream, range, static_cast<const T*>(from), parts.keys,
             parts.numbers);
  });
  const int lines = bits_of_lines(range);
  cudaError_t error = sort_pairs(parts.rest, sorting, parts, count, has_wide_keys(dtype) ? 64 : 32 + lines, stream);
  if (error != cudaSuccess) return error;
  if (has_wide_keys(dtype) && lines > 0) {
    launch(list_lines, blocks_for(count), kThreads, stream, range, parts.sorted_numbers, parts.keys);
    std::swap(parts.numbers, parts.sorted_numbers);
    error = sort_pairs(parts.rest, sorting, parts, count, lines, stream);
    if (error != cudaSuccess) return error;
  }
  launch(write_places, blocks_for(count), kThreads, stream, range, parts.sorted_numbers, to);
  return cudaSuccess;
}

}  // namespace tutti::cuda_kernels
