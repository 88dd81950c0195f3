// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/cuda/kernels/parts/axis_lines.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

namespace tutti::cuda_kernels {

/// f32 and f64. Each line is read twice, the second time from a cache as a rule, and written once.
void launch_softmax(cudaStream_t, SoftmaxKind, DType, const AxisLines&, const void* from, void* to);
void launch_softmax_gradient(cudaStream_t, SoftmaxKind, DType, const AxisLines&, const void* output,
                             const void* gradient, void* to);

}  // namespace tutti::cuda_kernels
