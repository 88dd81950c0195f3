// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tutti::cuda_kernels {

// `size` contiguous elements of a floating dtype, narrow ones too; `kept` is bool.

void launch_dropout(cudaStream_t, DType, const DropoutCall&, const void* from, std::int64_t size, void* to, bool* kept);
/// to = kept ? from factor : 0.
void launch_scale_kept(cudaStream_t, DType, double factor, const bool* kept, const void* from, std::int64_t size,
                       void* to);

}  // namespace tutti::cuda_kernels
