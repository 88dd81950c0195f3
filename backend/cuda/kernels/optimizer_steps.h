// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/backend/kernel_arguments.h>
#include <tutti/backend/optimizer_rules.h>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::cuda_kernels {

// All arrays are contiguous, of f32 or f64, and have `size` elements.

/// `momentum` may be null.
void launch_sgd_step(cudaStream_t, DType, const SgdStep&, std::int64_t size, std::byte* parameter,
                     const std::byte* gradient, std::byte* momentum);
void launch_adamw_step(cudaStream_t, DType, const AdamWStep&, std::int64_t size, std::byte* parameter,
                       const std::byte* gradient, std::byte* mean, std::byte* square);
void launch_optimizer_step(cudaStream_t, DType, const OptimizerRule&, std::int64_t size, std::byte* parameter,
                           const std::byte* gradient, std::span<std::byte* const> state);

}  // namespace tutti::cuda_kernels
