// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/reduce_shape.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/kernel_arguments.h>

#include <cuda_runtime_api.h>

namespace tutti::cuda_kernels {

void launch_reduce(cudaStream_t, Reduction, DType, const ReduceShape&, const void* from, void* to, void* partial);

}  // namespace tutti::cuda_kernels
