// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/cuda/kernels/parts/axis_lines.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

namespace tutti::cuda_kernels {

/// The arrays of a row's normalisation; null: no weight, no bias.
struct RowOperands {
  const void* input;
  const void* weight;
  const void* bias;
  void* mean;
  void* scale;
};

/// (x - mean) scale weight + bias; writes mean and scale too. `rows` lie one behind the other.
void launch_normalize_rows(cudaStream_t, const RowNorm&, DType, const AxisLines& rows, const RowOperands&,
                           void* output);

/// scale (g - mean(g) - n mean(g n)), n = (x - mean) scale, g = gradient weight.
void launch_normalize_rows_gradient(cudaStream_t, const RowNorm&, DType, const AxisLines& rows, const RowOperands&,
                                    const void* gradient, void* input_gradient);

/// Sums of gradient n, and of the gradient (null: not wanted), over each of `parts` parts of the rows.
void launch_normalize_rows_sums(cudaStream_t, DType, std::int64_t rows, std::int64_t length, std::int64_t parts,
                                const RowOperands&, const void* gradient, void* weight_sums, void* bias_sums);

}  // namespace tutti::cuda_kernels
