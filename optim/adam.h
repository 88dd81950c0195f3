// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/steps/rule_optimizer.h>

namespace tutti {

struct AdamOptions {
  double beta1 = 0.9;         ///< decay rate of the running average of g, in [0, 1)
  double beta2 = 0.999;       ///< decay rate of the running average of g^2, in [0, 1)
  double epsilon = 1e-8;      ///< > 0
  double weight_decay = 0.0;  ///< L2 penalty, added to the gradient; >= 0. Not of sparse gradients
  bool amsgrad = false;       ///< divide by the largest average of g^2 so far
};

std::string options_text(const AdamOptions&);  ///< names and values of all

/// Adam: see AdamStep. Its weight decay is an L2 penalty; AdamW decouples it. State: "mean" and "square", running
/// averages of g and g^2, and with amsgrad "largest_square". Of a parameter with sparse gradients it steps the
/// gradient's rows only, and decays the averages of no other, as torch.optim.SparseAdam does, whose epsilon these have:
/// see options_of_rows.
class Adam : public RuleOptimizer<AdamOptions> {
 public:
  /// Throws Error for an option outside its range.
  Adam(std::vector<Tensor> parameters, double learning_rate, const AdamOptions& = {});
  explicit Adam(const ParameterGroups&);
  std::string kind() const override { return "Adam"; }

 protected:
  OptimizerRule rule(const AdamOptions&, double rate, std::int64_t step) const override;
  OptimizerRule row_rule(const AdamOptions&, double rate, std::int64_t step) const override;
  std::string refuses_rows(std::size_t group) const override;
  std::vector<std::string> state_names(std::size_t group) const override;
};

}  // namespace tutti
