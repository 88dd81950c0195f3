// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/adamw.h>

#include <tutti/backend/error.h>
#include <tutti/optim/steps/moments.h>

#include <fmt/format.h>

namespace tutti {

std::string options_text(const AdamWOptions& options) {
  const auto& [beta1, beta2, epsilon, weight_decay] = options;
  return fmt::format("beta1 {}, beta2 {}, epsilon {}, weight_decay {}", beta1, beta2, epsilon, weight_decay);
}

void check_options(const AdamWOptions& options) { check_moments("AdamW", options); }

AdamW::AdamW(const ParameterGroups& groups)
    : RuleOptimizer(groups, [](const AdamWOptions& options) { check_options(options); }) {}
AdamW::AdamW(std::vector<Tensor> parameters, double learning_rate, const AdamWOptions& options)
    : AdamW(ParameterGroups{{std::move(parameters), learning_rate, options}}) {}

OptimizerRule rule_of(const AdamWOptions& options, double rate, std::int64_t step) {
  return AdamWStep{.rate = rate,
                   .beta1 = options.beta1,
                   .beta2 = options.beta2,
                   .epsilon = options.epsilon,
                   .weight_decay = options.weight_decay,
                   .step = step};
}

OptimizerRule row_rule_of(const AdamWOptions& options, double rate, std::int64_t step) {
  return rule_of(options_of_rows(options, step), rate, step);
}

std::string AdamW::refuses_rows(std::size_t group) const {
  return refuses_decay_of_rows("AdamW", options(group).weight_decay);
}

std::vector<std::string> AdamW::state_names(std::size_t) const { return moment_names(); }

}  // namespace tutti
