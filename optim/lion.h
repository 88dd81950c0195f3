// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/steps/rule_optimizer.h>

namespace tutti {

struct LionOptions {
  double beta1 = 0.9;         ///< weight of the mean in the sum whose sign is taken, in [0, 1)
  double beta2 = 0.99;        ///< decay rate of the mean, in [0, 1)
  double weight_decay = 0.0;  ///< decoupled from the gradient; >= 0
};

std::string options_text(const LionOptions&);  ///< names and values of all

/// Lion: see LionStep. Every element moves by the learning rate, so rates are a third to a tenth of AdamW's. State:
/// "mean".
class Lion : public RuleOptimizer<LionOptions> {
 public:
  /// Throws Error for an option outside its range.
  Lion(std::vector<Tensor> parameters, double learning_rate, const LionOptions& = {});
  explicit Lion(const ParameterGroups&);
  std::string kind() const override { return "Lion"; }

 protected:
  OptimizerRule rule(const LionOptions&, double rate, std::int64_t step) const override;
  std::vector<std::string> state_names(std::size_t group) const override;
};

}  // namespace tutti
