// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

namespace tutti::cuda_kernels {

/// The arrays of a step of `rows` sequences, as Backend::recurrent_step has them; null: undefined.
struct RecurrentStepArrays {
  std::int64_t rows;
  std::int64_t length;  ///< elements of a state
  const void* input_part;
  const void* product;
  const void* bias;
  void* hidden;
  void* cell;
  void* output;
  void* kept;
  void* hidden_before;
  void* cell_before;
};
void launch_recurrent_step(cudaStream_t, RecurrentGates, DType, const RecurrentStepArrays&);

/// The same of Backend::recurrent_step_gradient.
struct RecurrentGradientArrays {
  std::int64_t rows;
  std::int64_t length;
  const void* kept;
  const void* hidden_before;
  const void* cell_before;
  const void* gradient;
  void* hidden_gradient;
  void* cell_gradient;
  void* input_gradient;
  void* product_gradient;
};
void launch_recurrent_step_gradient(cudaStream_t, RecurrentGates, DType, const RecurrentGradientArrays&);

}  // namespace tutti::cuda_kernels
