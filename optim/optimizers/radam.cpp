// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/radam.h>

#include <tutti/optim/steps/moments.h>

#include <fmt/format.h>

namespace tutti {
namespace {

void check_radam_options(const RAdamOptions& options) { check_moments("RAdam", options); }

}  // namespace

std::string options_text(const RAdamOptions& options) {
  const auto& [beta1, beta2, epsilon, weight_decay, decoupled] = options;
  return fmt::format("beta1 {}, beta2 {}, epsilon {}, weight_decay {}, decoupled {}", beta1, beta2, epsilon,
                     weight_decay, decoupled);
}

RAdam::RAdam(const ParameterGroups& groups) : RuleOptimizer(groups, check_radam_options) {}
RAdam::RAdam(std::vector<Tensor> parameters, double learning_rate, const RAdamOptions& options)
    : RAdam(ParameterGroups{{std::move(parameters), learning_rate, options}}) {}

OptimizerRule RAdam::rule(const RAdamOptions& options, double rate, std::int64_t step) const {
  return RAdamStep{.rate = rate,
                   .beta1 = options.beta1,
                   .beta2 = options.beta2,
                   .epsilon = options.epsilon,
                   .weight_decay = options.weight_decay,
                   .decoupled = options.decoupled,
                   .step = step};
}

std::vector<std::string> RAdam::state_names(std::size_t) const { return moment_names(); }

}  // namespace tutti
