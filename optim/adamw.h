// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/steps/rule_optimizer.h>

namespace tutti {

struct AdamWOptions {
  double beta1 = 0.9;          ///< decay rate of the running average of g, in [0, 1)
  double beta2 = 0.999;        ///< decay rate of the running average of g^2, in [0, 1)
  double epsilon = 1e-8;       ///< > 0
  double weight_decay = 0.01;  ///< decoupled from the gradient; >= 0. Not of sparse gradients
};

std::string options_text(const AdamWOptions&);  ///< names and values of all

void check_options(const AdamWOptions&);  ///< throws Error for one outside its range
/// `step` counts from 1.
OptimizerRule rule_of(const AdamWOptions&, double rate, std::int64_t step);
/// The rule for the rows of a sparse gradient: see options_of_rows.
OptimizerRule row_rule_of(const AdamWOptions&, double rate, std::int64_t step);

/// Adam with decoupled weight decay: see AdamWStep. State: "mean" and "square", running averages of g and g^2. The bias
/// correction counts a parameter's own steps, so that one that got its first gradient late is corrected like the
/// others. Of a parameter with sparse gradients it steps the gradient's rows only, as Adam does.
class AdamW : public RuleOptimizer<AdamWOptions> {
 public:
  /// Throws Error for an option outside its range.
  AdamW(std::vector<Tensor> parameters, double learning_rate, const AdamWOptions& = {});
  explicit AdamW(const ParameterGroups&);
  std::string kind() const override { return "AdamW"; }

 protected:
  OptimizerRule rule(const AdamWOptions& options, double rate, std::int64_t step) const override {
    return rule_of(options, rate, step);
  }
  OptimizerRule row_rule(const AdamWOptions& options, double rate, std::int64_t step) const override {
    return row_rule_of(options, rate, step);
  }
  std::string refuses_rows(std::size_t group) const override;
  std::vector<std::string> state_names(std::size_t group) const override;
};

}  // namespace tutti
