// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/parts/selection.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

namespace tutti::cuda_kernels {

/// An index out of range reads nothing, stores 0 and is reported.
void launch_gather(cudaStream_t, DType, const Selection&, const void* from, const std::int64_t* index, void* to,
                   IndexFault*);

}  // namespace tutti::cuda_kernels
