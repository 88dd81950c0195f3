// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/cuda/kernels/parts/axis_lines.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

namespace tutti::cuda_kernels {

void launch_arg_reduce(cudaStream_t, ArgReduction, DType, const AxisLines&, const void* from, std::int64_t* to);

}  // namespace tutti::cuda_kernels
