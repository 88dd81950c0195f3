// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/lion.h>

#include <tutti/optim/steps/option_checks.h>

#include <fmt/format.h>

namespace tutti {
namespace {

void check_lion_options(const LionOptions& options) {
  check_share("Lion", "beta1", options.beta1);
  check_share("Lion", "beta2", options.beta2);
  check_not_negative("Lion", "weight_decay", options.weight_decay);
}

}  // namespace

std::string options_text(const LionOptions& options) {
  const auto& [beta1, beta2, weight_decay] = options;
  return fmt::format("beta1 {}, beta2 {}, weight_decay {}", beta1, beta2, weight_decay);
}

Lion::Lion(const ParameterGroups& groups) : RuleOptimizer(groups, check_lion_options) {}
Lion::Lion(std::vector<Tensor> parameters, double learning_rate, const LionOptions& options)
    : Lion(ParameterGroups{{std::move(parameters), learning_rate, options}}) {}

OptimizerRule Lion::rule(const LionOptions& options, double rate, std::int64_t) const {
  return LionStep{.rate = rate, .beta1 = options.beta1, .beta2 = options.beta2, .weight_decay = options.weight_decay};
}

std::vector<std::string> Lion::state_names(std::size_t) const { return {"mean"}; }

}  // namespace tutti
