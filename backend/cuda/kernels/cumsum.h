// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/cuda/kernels/parts/axis_lines.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

namespace tutti::cuda_kernels {

/// Lines up to this long have a thread each; longer ones a block, which takes them piece by piece.
inline constexpr std::int64_t kShortSum = 32;

/// Running sums of each line, from the end where `reverse`. Deterministic.
void launch_cumsum(cudaStream_t, DType, const AxisLines&, bool reverse, const void* from, void* to);

/// Places of the largest (smallest) of each line up to each element: the last of equals, and of NaN, which wins.
void launch_running_arg(cudaStream_t, ArgReduction, DType, const AxisLines&, const void* from, std::int64_t* to);

}  // namespace tutti::cuda_kernels
