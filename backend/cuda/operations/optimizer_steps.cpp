// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/raise.h>

#include <tutti/backend/cuda/kernels/optimizer_steps.h>

#include <vector>

namespace tutti {
namespace {

using cuda_kernels::ParameterMemory;

std::byte* memory_of(const Array& state) { return state.defined() ? state.raw_data() : nullptr; }
ParameterMemory memory_of(const RuleOperands& operands, const Array& gradient) {
  return {operands.parameter.size(),
          operands.parameter.raw_data(),
          gradient.raw_data(),
          {memory_of(operands.state[0]), memory_of(operands.state[1]), memory_of(operands.state[2])}};
}

}  // namespace

void CudaBackend::optimizer_step(const OptimizerRule& rule, std::span<const RuleOperands> parameters) {
  std::vector<Array> gradients;  // contiguous, until the kernel is queued
  std::vector<ParameterMemory> memory;
  for (const RuleOperands& each : parameters)
    if (each.parameter.size() > 0) {
      gradients.push_back(each.gradient.contiguous());
      memory.push_back(memory_of(each, gradients.back()));
    }
  if (memory.empty()) return;
  const Array& first = parameters.front().parameter;
  if (is_narrow(first.dtype()))
    raise<DTypeError>("[optimizer_step] takes f32 and f64, not {}: widen it", to_string(first.dtype()));
  stream(first.device()).launch("optimizer_step", [&](cudaStream_t queue) {
    cuda_kernels::launch_optimizer_step(queue, first.dtype(), rule, memory);
  });
}

}  // namespace tutti
