// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/adam.h>

#include <tutti/backend/error.h>
#include <tutti/optim/steps/moments.h>

#include <fmt/format.h>

namespace tutti {
namespace {

void check_adam_options(const AdamOptions& options) { check_moments("Adam", options); }

}  // namespace

std::string options_text(const AdamOptions& options) {
  const auto& [beta1, beta2, epsilon, weight_decay, amsgrad] = options;
  return fmt::format("beta1 {}, beta2 {}, epsilon {}, weight_decay {}, amsgrad {}", beta1, beta2, epsilon, weight_decay,
                     amsgrad);
}

Adam::Adam(const ParameterGroups& groups) : RuleOptimizer(groups, check_adam_options) {}
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
  return rule(options_of_rows(options, step), rate, step);
}

std::string Adam::refuses_rows(std::size_t group) const {
  return refuses_decay_of_rows("Adam", options(group).weight_decay);
}

std::vector<std::string> Adam::state_names(std::size_t group) const {
  if (options(group).amsgrad) return {"mean", "square", "largest_square"};
  return moment_names();
}

}  // namespace tutti
