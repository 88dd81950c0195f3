// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/steps/rule_optimizer.h>

namespace tutti {

struct AdadeltaOptions {
  double rho = 0.9;           ///< decay rate of the running averages, in [0, 1)
  double epsilon = 1e-6;      ///< > 0
  double weight_decay = 0.0;  ///< L2 penalty, added to the gradient; >= 0
};

std::string options_text(const AdadeltaOptions&);  ///< names and values of all

/// Adadelta: see AdadeltaStep. Its learning rate is a factor, 1 by custom. State: "square", "change".
class Adadelta : public RuleOptimizer<AdadeltaOptions> {
 public:
  /// Throws Error for an option outside its range.
  Adadelta(std::vector<Tensor> parameters, double learning_rate = 1.0, const AdadeltaOptions& = {});
  explicit Adadelta(const ParameterGroups&);
  std::string kind() const override { return "Adadelta"; }

 protected:
  OptimizerRule rule(const AdadeltaOptions&, double rate, std::int64_t step) const override;
  std::vector<std::string> state_names(std::size_t group) const override;
};

}  // namespace tutti
