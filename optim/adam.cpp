// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/adam.h>

#include <tutti/backend/error.h>
#include <tutti/optim/option_checks.h>

namespace tutti {
namespace {

void check(const AdamOptions& options) {
  check_share("Adam", "beta1", options.beta1);
  check_share("Adam", "beta2", options.beta2);
  check_positive("Adam", "epsilon", options.epsilon);
  check_not_negative("Adam", "weight_decay", options.weight_decay);
}

}  // namespace

Adam::Adam(const ParameterGroups& groups) : RuleOptimizer(groups, check) {}
Adam::Adam(std::vector<Tensor> parameters, double learning_rate, const AdamOptions& options)
    : Adam(ParameterGroups{{std::move(parameters), learning_rate, options}}) {}

OptimizerRule Adam::rule(const AdamOptions& options, double rate, std::int64_t step) const {
  return AdamStep{.rate = rate,
                  .beta1 = options.beta1,
                  .beta2 = options.beta2,
                  .epsilon = options.epsilon,
                  .weight_decay = options.weight_decay,
                  .amsgrad = options.amsgrad,
                  .step = step};
}

OptimizerRule Adam::row_rule(const AdamOptions& options, double rate, std::int64_t step) const {
  AdamOptions of_rows = options;
  of_rows.epsilon = epsilon_of_rows(options.epsilon, options.beta2, step);
  return rule(of_rows, rate, step);
}

std::string Adam::refuses_rows(std::size_t group) const {
  if (options(group).weight_decay == 0.0) return "";
  return fmt::format(
      "Adam with weight_decay {} would change all rows; give it to a group without, or mark it dense with "
      "set_sparse_grad(false)",
      options(group).weight_decay);
}

std::vector<std::string> Adam::state_names(std::size_t group) const {
  if (options(group).amsgrad) return {"mean", "square", "largest_square"};
  return {"mean", "square"};
}

}  // namespace tutti
