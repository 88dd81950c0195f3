// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/parts/pooling_windows.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

namespace tutti::cuda_kernels {

void launch_max_pool2d(cudaStream_t, DType, const Pooling&, const void* from, void* maxima, std::int64_t* places);
/// Each element collects from the windows over it, so that nothing is added by two threads.
void launch_max_pool2d_gradient(cudaStream_t, DType, const Pooling&, const void* gradient, const std::int64_t* places,
                                void* to);

void launch_avg_pool2d(cudaStream_t, DType, const MeanPooling&, const void* from, void* to);
/// Each element collects from the windows over it.
void launch_avg_pool2d_gradient(cudaStream_t, DType, const MeanPooling&, const void* gradient, void* to);

}  // namespace tutti::cuda_kernels
