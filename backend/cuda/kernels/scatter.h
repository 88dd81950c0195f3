// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/cuda/kernels/parts/selection.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tutti::cuda_kernels {

// Both ways are deterministic. An index out of range writes nothing and is reported.

/// Lines up to this long are taken by a thread each, in the order of the index.
inline constexpr std::int64_t kShortLine = 64;

void launch_scatter_lines(cudaStream_t, Scatter, DType, const Selection&, const void* updates,
                          const std::int64_t* index, void* to, IndexFault*);

/// Longer ones: the updates are sorted by the place that they point to, at most kMostSorted at a time, which keeps
/// those of one place in the order of the index. Each place's are joined in that order, from kLongRun on by a warp in
/// an order that depends on their number alone; where they are set, the last is.
inline constexpr std::int64_t kMostSorted = std::int64_t{1} << 26U;
inline constexpr std::int64_t kLongRun = 64;

struct SortedUpdates {
  std::int64_t begin;   // first of the updates sorted at a time
  std::int64_t count;   // number of the updates sorted at a time, at most kMostSorted
  std::int64_t places;  // elements of the output
};

/// Bytes of workspace for `updates`; the device must be current.
cudaError_t scatter_workspace(const SortedUpdates& updates, std::size_t& bytes);
cudaError_t launch_scatter_sorted(cudaStream_t, Scatter, DType, const Selection&, const SortedUpdates&,
                                  const void* updates, const std::int64_t* index, void* to, IndexFault*,
                                  void* workspace, std::size_t workspace_bytes);

/// Rows of `columns` elements, f32 or f64, are added to rows of an output of `updates.places` rows: row i to that of
/// number index[i]. The rows' numbers are sorted, and each row's are added in that order. The workspace is as above.
cudaError_t launch_add_rows(cudaStream_t, DType, const SortedUpdates& updates, std::int64_t columns, const void* from,
                            const std::int64_t* index, void* to, IndexFault*, std::int64_t axis, void* workspace,
                            std::size_t workspace_bytes);

}  // namespace tutti::cuda_kernels
