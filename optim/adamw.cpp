// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/adamw.h>

#include <tutti/backend/error.h>
#include <tutti/optim/option_checks.h>

namespace tutti {

void check_options(const AdamWOptions& options) {
  check_share("AdamW", "beta1", options.beta1);
  check_share("AdamW", "beta2", options.beta2);
  check_positive("AdamW", "epsilon", options.epsilon);
  check_not_negative("AdamW", "weight_decay", options.weight_decay);
}

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
  AdamWOptions of_rows = options;
  of_rows.epsilon = epsilon_of_rows(options.epsilon, options.beta2, step);
  return rule_of(of_rows, rate, step);
}

std::string AdamW::refuses_rows(std::size_t group) const {
  if (options(group).weight_decay == 0.0) return "";
  return fmt::format(
      "AdamW with weight_decay {} would change all rows; give it to a group without, or mark it dense with "
      "set_sparse_grad(false)",
      options(group).weight_decay);
}

std::vector<std::string> AdamW::state_names(std::size_t) const { return {"mean", "square"}; }

}  // namespace tutti
