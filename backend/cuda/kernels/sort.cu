// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/sort.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>
#include <tutti/backend/cuda/kernels/parts/numbered_sort.cuh>
#include <tutti/backend/numbers/sort_key.h>

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

int bits_of_lines(const SortedLines& range) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(range.count - 1)));
}

bool has_wide_keys(DType dtype) { return size_of(dtype) == 8; }

int bits_of_keys(DType dtype, const SortedLines& range) {
  return has_wide_keys(dtype) ? 64 : 32 + bits_of_lines(range);
}

}  // namespace

cudaError_t arg_sort_workspace(DType dtype, const SortedLines& range, std::size_t& bytes) {
  return NumberedSort::workspace(range.elements(), bits_of_keys(dtype, range), bytes);
}

cudaError_t launch_arg_sort(cudaStream_t stream, DType dtype, const SortedLines& range, const void* from,
                            std::int64_t* to, void* workspace, std::size_t workspace_bytes) {
  const std::int64_t count = range.elements();
  NumberedSort parts(workspace, workspace_bytes, count);
  visit_computed_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>)
      launch(list_keys<T>, blocks_for(count), kThreads, stream, range, static_cast<const T*>(from), parts.keys,
             parts.numbers);
  });
  cudaError_t error = parts.sort(count, bits_of_keys(dtype, range), stream);
  if (error != cudaSuccess) return error;
  if (const int lines = bits_of_lines(range); has_wide_keys(dtype) && lines > 0) {
    launch(list_lines, blocks_for(count), kThreads, stream, range, parts.sorted_numbers, parts.keys);
    std::swap(parts.numbers, parts.sorted_numbers);
    error = parts.sort(count, lines, stream);
    if (error != cudaSuccess) return error;
  }
  launch(write_places, blocks_for(count), kThreads, stream, range, parts.sorted_numbers, to);
  return cudaSuccess;
}

}  // namespace tutti::cuda_kernels
