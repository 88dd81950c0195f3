// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tutti::cuda_kernels {

enum class Combination : std::uint8_t { sum, max, min };  ///< max and min propagate NaN

// Contiguous arrays of numbers, on the stream's device.
/// values[i] /= denominator. A denominator of 1 launches nothing.
void launch_divide(cudaStream_t, DType, void* values, std::int64_t count, double denominator);
/// values[i] = values[i] combined with other[i].
void launch_combine(cudaStream_t, Combination, DType, void* values, const void* other, std::int64_t count);

}  // namespace tutti::cuda_kernels
