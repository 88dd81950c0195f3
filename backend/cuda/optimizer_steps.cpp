// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/error.h>

#include <tutti/backend/cuda/kernels/optimizer_steps.h>

#include <vector>

namespace tutti {
namespace {

using cuda_kernels::ParameterMemory;

std::byte* memory_of(const Array& state) { return state.defined() ? state.raw_data() : nullptr; }
ParameterMemory memory_of(const SgdOperands& operands, const Array& gradient) {
  return {operands.parameter.size(),
          operands.parameter.raw_data(),
          gradient.raw_data(),
          {memory_of(operands.momentum), nullptr, nullptr}};
}
ParameterMemory memory_of(const AdamWOperands& operands, const Array& gradient) {
  return {operands.parameter.size(),
          operands.parameter.raw_data(),
          gradient.raw_data(),
          {operands.mean.raw_data(), operands.square.raw_data(), nullptr}};
}
ParameterMemory memory_of(const RuleOperands& operands, const Array& gradient) {
  return {operands.parameter.size(),
          operands.parameter.raw_data(),
          gradient.raw_data(),
          {memory_of(operands.state[0]), memory_of(operands.state[1]), memory_of(operands.state[2])}};
}

/// Calls `launch(stream, dtype, parameters)` for those that have elements.
template <class Operands, class Launch> void for_memory_of(CudaBackend& backend, std::string_view operation,
                                                           std::span<const Operands> parameters, const Launch& launch) {
  std::vector<Array> gradients;  // contiguous, until the kernel is queued
  std::vector<ParameterMemory> memory;
  for (const Operands& each : parameters)
    if (each.parameter.size() > 0) {
      gradients.push_back(each.gradient.contiguous());
      memory.push_back(memory_of(each, gradients.back()));
    }
  if (memory.empty()) return;
  const Array& first = parameters.front().parameter;
  if (is_narrow(first.dtype()))
    raise<DTypeError>("[{}] takes f32 and f64, not {}: widen it", operation, to_string(first.dtype()));
  backend.stream(first.device()).launch(operation, [&](cudaStream_t queue) { launch(queue, first.dtype(), memory); });
}

}  // namespace

void CudaBackend::sgd_steps(const SgdStep& step, std::span<const SgdOperands> parameters) {
  for_memory_of(*this, "sgd_step", parameters, [&](cudaStream_t queue, DType dtype, const auto& memory) {
    cuda_kernels::launch_sgd_steps(queue, dtype, step, memory);
  });
}

void CudaBackend::adamw_steps(const AdamWStep& step, std::span<const AdamWOperands> parameters) {
  for_memory_of(*this, "adamw_step", parameters, [&](cudaStream_t queue, DType dtype, const auto& memory) {
    cuda_kernels::launch_adamw_steps(queue, dtype, step, memory);
  });
}

void CudaBackend::optimizer_step(const OptimizerRule& rule, std::span<const RuleOperands> parameters) {
  for_memory_of(*this, "optimizer_step", parameters, [&](cudaStream_t queue, DType dtype, const auto& memory) {
    cuda_kernels::launch_optimizer_step(queue, dtype, rule, memory);
  });
}

void CudaBackend::sgd_step(const SgdStep& step, const Array& parameter, const Array& gradient, const Array& momentum) {
  const SgdOperands one[] = {{parameter, gradient, momentum}};
  sgd_steps(step, one);
}

void CudaBackend::adamw_step(const AdamWStep& step, const Array& parameter, const Array& gradient, const Array& mean,
                             const Array& square) {
  const AdamWOperands one[] = {{parameter, gradient, mean, square}};
  adamw_steps(step, one);
}

}  // namespace tutti
