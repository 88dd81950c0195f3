// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/adamw.h>

#include <tutti/backend/registry.h>
#include <tutti/optim/option_checks.h>

namespace tutti {
namespace {

void check(const AdamWOptions& options) {
  check_share("AdamW", "beta1", options.beta1);
  check_share("AdamW", "beta2", options.beta2);
  check_positive("AdamW", "epsilon", options.epsilon);
  check_not_negative("AdamW", "weight_decay", options.weight_decay);
}

}  // namespace

AdamW::AdamW(const ParameterGroups& groups) : GroupedOptimizer(groups, check) {}
AdamW::AdamW(std::vector<Tensor> parameters, double learning_rate, const AdamWOptions& options)
    : AdamW(ParameterGroups{{std::move(parameters), learning_rate, options}}) {}

void AdamW::update(std::span<const Update> updates) {
  const AdamWOptions& options = options_of(updates.front());
  const AdamWStep step{.rate = rate_of(updates.front()),
                       .beta1 = options.beta1,
                       .beta2 = options.beta2,
                       .epsilon = options.epsilon,
                       .weight_decay = options.weight_decay,
                       .step = updates.front().state->steps + 1};
  std::vector<AdamWOperands> operands;
  operands.reserve(updates.size());
  for (const auto& [position, parameter, gradient, state] : updates)
    operands.push_back({parameter, gradient, state->arrays[0].second, state->arrays[1].second});
  backend_for(updates.front().parameter.device()).adamw_steps(step, operands);
}

std::string AdamW::refuses_rows(std::size_t) const {
  return "AdamW does not take them yet: give it to an Sgd of its own, or mark it dense with set_sparse_grad(false)";
}

std::vector<std::string> AdamW::state_names(std::size_t) const { return {"mean", "square"}; }

}  // namespace tutti
