// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/adadelta.h>

#include <tutti/optim/steps/option_checks.h>

#include <fmt/format.h>

namespace tutti {
namespace {

void check_adadelta_options(const AdadeltaOptions& options) {
  check_share("Adadelta", "rho", options.rho);
  check_positive("Adadelta", "epsilon", options.epsilon);
  check_not_negative("Adadelta", "weight_decay", options.weight_decay);
}

}  // namespace

std::string options_text(const AdadeltaOptions& options) {
  const auto& [rho, epsilon, weight_decay] = options;
  return fmt::format("rho {}, epsilon {}, weight_decay {}", rho, epsilon, weight_decay);
}

Adadelta::Adadelta(const ParameterGroups& groups) : RuleOptimizer(groups, check_adadelta_options) {}
Adadelta::Adadelta(std::vector<Tensor> parameters, double learning_rate, const AdadeltaOptions& options)
    : Adadelta(ParameterGroups{{std::move(parameters), learning_rate, options}}) {}

OptimizerRule Adadelta::rule(const AdadeltaOptions& options, double rate, std::int64_t) const {
  return AdadeltaStep{
      .rate = rate, .rho = options.rho, .epsilon = options.epsilon, .weight_decay = options.weight_decay};
}

std::vector<std::string> Adadelta::state_names(std::size_t) const { return {"square", "change"}; }

}  // namespace tutti
