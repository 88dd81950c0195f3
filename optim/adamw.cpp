// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/adamw.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>

#include <cmath>

namespace tutti {

AdamW::AdamW(std::vector<Tensor> parameters, double learning_rate, const AdamWOptions& options)
    : Optimizer(std::move(parameters), learning_rate), options_(options) {
  if (!(options.beta1 >= 0.0 && options.beta1 < 1.0 && options.beta2 >= 0.0 && options.beta2 < 1.0))
    raise("[AdamW] beta1 and beta2 must be in [0, 1), got {} and {}", options.beta1, options.beta2);
  if (!(std::isfinite(options.epsilon) && options.epsilon > 0.0))
    raise("[AdamW] epsilon must be finite and positive, got {}", options.epsilon);
  if (!(std::isfinite(options.weight_decay) && options.weight_decay >= 0.0))
    raise("[AdamW] weight_decay must be finite and not negative, got {}", options.weight_decay);
}

void AdamW::update(std::span<const Update> updates) {
  const AdamWStep step{.rate = learning_rate(),
                       .beta1 = options_.beta1,
                       .beta2 = options_.beta2,
                       .epsilon = options_.epsilon,
                       .weight_decay = options_.weight_decay,
                       .step = updates.front().state->steps + 1};
  std::vector<AdamWOperands> operands;
  operands.reserve(updates.size());
  for (const auto& [position, parameter, gradient, state] : updates)
    operands.push_back({parameter, gradient, state->arrays[0].second, state->arrays[1].second});
  backend_for(updates.front().parameter.device()).adamw_steps(step, operands);
}

std::string AdamW::refuses_rows() const {
  return "AdamW does not take them yet: give it to an Sgd of its own, or mark it dense with set_sparse_grad(false)";
}

std::vector<std::string> AdamW::state_names() const { return {"mean", "square"}; }

}  // namespace tutti
