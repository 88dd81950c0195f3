// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/backend/formulas/optimizer_rules.h>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::cuda_kernels {

/// A parameter, its gradient and its state: contiguous arrays of f32 or f64, each of `size` elements.
struct ParameterMemory {
  std::int64_t size;
  std::byte* parameter;
  const std::byte* gradient;
  std::byte* state[RuleOperands::kMostStates];  ///< arrays of the rule's state, as many as it has
};

/// One launch for every few dozen parameters.
void launch_optimizer_step(cudaStream_t, DType, const OptimizerRule&, std::span<const ParameterMemory>);

}  // namespace tutti::cuda_kernels
