// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/parts/axis_lines.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tutti::cuda_kernels {

/// Whole lines that are sorted at a time: about this many elements, and fewer than 2^32.
inline constexpr std::int64_t kMostSortedTogether = std::int64_t{1} << 26U;

struct SortedLines {
  AxisLines lines;
  std::int64_t begin;  // first of the lines sorted at a time
  std::int64_t count;
  bool descending;

  TUTTI_HOST_DEVICE std::int64_t elements() const { return count * lines.length; }
};

/// Bytes of workspace for these lines; the device must be current.
cudaError_t arg_sort_workspace(DType, const SortedLines&, std::size_t& bytes);
/// The places of each line's elements in the order of their `sort_key`; equals keep theirs. By CUB's stable radix sort:
/// of line and key together where both fit into 64 bits, else of the keys and then of the lines.
cudaError_t launch_arg_sort(cudaStream_t, DType, const SortedLines&, const void* from, std::int64_t* to,
                            void* workspace, std::size_t workspace_bytes);

}  // namespace tutti::cuda_kernels
