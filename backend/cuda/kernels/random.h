// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tutti::cuda_kernels {

/// `size` contiguous elements of f32 or f64.
void launch_random(cudaStream_t, DType, const RandomCall&, std::byte* to, std::int64_t size);

}  // namespace tutti::cuda_kernels
