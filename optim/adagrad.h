// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/steps/rule_optimizer.h>

namespace tutti {

struct AdagradOptions {
  double learning_rate_decay = 0.0;        ///< step t has learning_rate / (1 + (t - 1) learning_rate_decay); >= 0
  double weight_decay = 0.0;               ///< L2 penalty, added to the gradient; >= 0. Not of sparse gradients
  double initial_accumulator_value = 0.0;  ///< value that the sum starts from; >= 0
  double epsilon = 1e-10;                  ///< > 0
};

std::string options_text(const AdagradOptions&);  ///< names and values of all

void check_options(const AdagradOptions&);  ///< throws Error for one outside its range
/// `step` counts from 1.
OptimizerRule rule_of(const AdagradOptions&, double rate, std::int64_t step);

/// Adagrad: see AdagradStep. State: "sum" of g^2. Of a parameter with sparse gradients it steps the gradient's rows
/// only.
class Adagrad : public RuleOptimizer<AdagradOptions> {
 public:
  /// Throws Error for an option outside its range.
  Adagrad(std::vector<Tensor> parameters, double learning_rate, const AdagradOptions& = {});
  explicit Adagrad(const ParameterGroups&);
  std::string kind() const override { return "Adagrad"; }

 protected:
  OptimizerRule rule(const AdagradOptions& options, double rate, std::int64_t step) const override {
    return rule_of(options, rate, step);
  }
  std::string refuses_rows(std::size_t group) const override;
  std::vector<std::string> state_names(std::size_t group) const override;
  double initial_state(std::size_t group) const override;
};

}  // namespace tutti
