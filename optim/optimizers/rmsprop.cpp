// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/rmsprop.h>

#include <tutti/optim/steps/option_checks.h>

#include <fmt/format.h>

namespace tutti {
namespace {

void check_rmsprop_options(const RmspropOptions& options) {
  check_share("Rmsprop", "alpha", options.alpha);
  check_positive("Rmsprop", "epsilon", options.epsilon);
  check_not_negative("Rmsprop", "weight_decay", options.weight_decay);
  check_share("Rmsprop", "momentum", options.momentum);
}

}  // namespace

std::string options_text(const RmspropOptions& options) {
  const auto& [alpha, epsilon, weight_decay, momentum, centered] = options;
  return fmt::format("alpha {}, epsilon {}, weight_decay {}, momentum {}, centered {}", alpha, epsilon, weight_decay,
                     momentum, centered);
}

Rmsprop::Rmsprop(const ParameterGroups& groups) : RuleOptimizer(groups, check_rmsprop_options) {}
Rmsprop::Rmsprop(std::vector<Tensor> parameters, double learning_rate, const RmspropOptions& options)
    : Rmsprop(ParameterGroups{{std::move(parameters), learning_rate, options}}) {}

OptimizerRule Rmsprop::rule(const RmspropOptions& options, double rate, std::int64_t) const {
  return RmspropStep{.rate = rate,
                     .alpha = options.alpha,
                     .epsilon = options.epsilon,
                     .weight_decay = options.weight_decay,
                     .momentum = options.momentum,
                     .centered = options.centered};
}

std::vector<std::string> Rmsprop::state_names(std::size_t group) const {
  std::vector<std::string> names{"square"};
  if (options(group).centered) names.emplace_back("mean");
  if (options(group).momentum != 0.0) names.emplace_back("momentum");
  return names;
}

}  // namespace tutti
