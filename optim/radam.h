// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/steps/rule_optimizer.h>

namespace tutti {

struct RAdamOptions {
  double beta1 = 0.9;         ///< decay rate of the running average of g, in [0, 1)
  double beta2 = 0.999;       ///< decay rate of the running average of g^2, in [0, 1)
  double epsilon = 1e-8;      ///< > 0
  double weight_decay = 0.0;  ///< >= 0
  bool decoupled = false;     ///< weight decay as AdamW's; else an L2 penalty, added to the gradient
};

std::string options_text(const RAdamOptions&);  ///< names and values of all

/// RAdam, "rectified": see RAdamStep. Needs no warm-up of the learning rate. State: "mean", "square".
class RAdam : public RuleOptimizer<RAdamOptions> {
 public:
  /// Throws Error for an option outside its range.
  RAdam(std::vector<Tensor> parameters, double learning_rate, const RAdamOptions& = {});
  explicit RAdam(const ParameterGroups&);
  std::string kind() const override { return "RAdam"; }

 protected:
  OptimizerRule rule(const RAdamOptions&, double rate, std::int64_t step) const override;
  std::vector<std::string> state_names(std::size_t group) const override;
};

}  // namespace tutti
