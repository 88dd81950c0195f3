// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/cuda/plans/reduce_shape.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

namespace tutti::cuda_kernels {

void launch_reduce(cudaStream_t, Reduction, DType, const ReduceShape&, const void* from, void* to, void* partial);

}  // namespace tutti::cuda_kernels
