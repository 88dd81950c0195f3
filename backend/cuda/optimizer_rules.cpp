// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/optimizer_steps.h>

namespace tutti {

void CudaBackend::optimizer_step(const OptimizerRule& rule, std::span<const RuleOperands> parameters) {
  for (const RuleOperands& each : parameters) {
    if (each.parameter.size() == 0) continue;
    std::array<std::byte*, RuleOperands::kMostStates> state{};
    for (std::size_t s = 0; s < state.size(); ++s)
      if (each.state[s].defined()) state[s] = each.state[s].raw_data();
    stream(each.parameter.device()).launch("optimizer_step", [&](cudaStream_t queue) {
      cuda_kernels::launch_optimizer_step(queue, each.parameter.dtype(), rule, each.parameter.size(),
                                          each.parameter.raw_data(), each.gradient.raw_data(), state);
    });
  }
}

}  // namespace tutti
