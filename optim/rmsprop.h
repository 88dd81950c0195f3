// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/steps/rule_optimizer.h>

namespace tutti {

struct RmspropOptions {
  double alpha = 0.99;        ///< decay rate of the running average of g^2, in [0, 1)
  double epsilon = 1e-8;      ///< > 0
  double weight_decay = 0.0;  ///< L2 penalty, added to the gradient; >= 0
  double momentum = 0.0;      ///< momentum factor, in [0, 1)
  bool centered = false;      ///< divide by the standard deviation of g in place of its root mean square
};

std::string options_text(const RmspropOptions&);  ///< names and values of all

/// RMSprop: see RmspropStep. State: "square"; "mean" if centered; "momentum" unless momentum is 0.
class Rmsprop : public RuleOptimizer<RmspropOptions> {
 public:
  /// Throws Error for an option outside its range.
  Rmsprop(std::vector<Tensor> parameters, double learning_rate, const RmspropOptions& = {});
  explicit Rmsprop(const ParameterGroups&);
  std::string kind() const override { return "Rmsprop"; }

 protected:
  OptimizerRule rule(const RmspropOptions&, double rate, std::int64_t step) const override;
  std::vector<std::string> state_names(std::size_t group) const override;
};

}  // namespace tutti
