// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/adagrad.h>

#include <tutti/backend/error.h>
#include <tutti/optim/steps/option_checks.h>

#include <fmt/format.h>

namespace tutti {

std::string options_text(const AdagradOptions& options) {
  const auto& [learning_rate_decay, weight_decay, initial_accumulator_value, epsilon] = options;
  return fmt::format("learning_rate_decay {}, weight_decay {}, initial_accumulator_value {}, epsilon {}",
                     learning_rate_decay, weight_decay, initial_accumulator_value, epsilon);
}

void check_options(const AdagradOptions& options) {
  check_not_negative("Adagrad", "learning_rate_decay", options.learning_rate_decay);
  check_not_negative("Adagrad", "weight_decay", options.weight_decay);
  check_not_negative("Adagrad", "initial_accumulator_value", options.initial_accumulator_value);
  check_positive("Adagrad", "epsilon", options.epsilon);
}

Adagrad::Adagrad(const ParameterGroups& groups)
    : RuleOptimizer(groups, [](const AdagradOptions& options) { check_options(options); }) {}
Adagrad::Adagrad(std::vector<Tensor> parameters, double learning_rate, const AdagradOptions& options)
    : Adagrad(ParameterGroups{{std::move(parameters), learning_rate, options}}) {}

OptimizerRule rule_of(const AdagradOptions& options, double rate, std::int64_t step) {
  return AdagradStep{.rate = rate / (1.0 + static_cast<double>(step - 1) * options.learning_rate_decay),
                     .epsilon = options.epsilon,
                     .weight_decay = options.weight_decay};
}

std::string Adagrad::refuses_rows(std::size_t group) const {
  return refuses_decay_of_rows("Adagrad", options(group).weight_decay);
}

std::vector<std::string> Adagrad::state_names(std::size_t) const { return {"sum"}; }

double Adagrad::initial_state(std::size_t group) const { return options(group).initial_accumulator_value; }

}  // namespace tutti
