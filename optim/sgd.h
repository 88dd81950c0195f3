// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/steps/rule_optimizer.h>

namespace tutti {

struct SgdOptions {
  double momentum = 0.0;      ///< momentum factor, in [0, 1)
  double dampening = 0.0;     ///< share of the gradient kept out of the momentum, in [0, 1]; 0 with nesterov
  double weight_decay = 0.0;  ///< L2 penalty, added to the gradient; >= 0
  bool nesterov = false;      ///< needs momentum
};

std::string options_text(const SgdOptions&);  ///< names and values of all

/// Stochastic gradient descent, with PyTorch's formulas: see SgdStep. State: "momentum", unless momentum is 0. Of a
/// parameter with sparse gradients it touches the gradient's rows only, and refuses momentum and weight decay, which
/// would change all rows.
class Sgd : public RuleOptimizer<SgdOptions> {
 public:
  /// Throws Error for an option outside its range.
  Sgd(std::vector<Tensor> parameters, double learning_rate, const SgdOptions& = {});
  explicit Sgd(const ParameterGroups&);
  std::string kind() const override { return "Sgd"; }

 protected:
  OptimizerRule rule(const SgdOptions&, double rate, std::int64_t step) const override;
  std::string refuses_rows(std::size_t group) const override;
  void update_rows(std::size_t position, const Array& parameter, const SparseGradient&, ParameterState&) override;
  std::vector<std::string> state_names(std::size_t group) const override;
};

}  // namespace tutti
