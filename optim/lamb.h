// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/steps/parameter_groups.h>

namespace tutti {

struct LambOptions {
  double beta1 = 0.9;          ///< decay rate of the running average of g, in [0, 1)
  double beta2 = 0.999;        ///< decay rate of the running average of g^2, in [0, 1)
  double epsilon = 1e-6;       ///< > 0
  double weight_decay = 0.01;  ///< part of what the ratio scales; >= 0
  bool adapt = true;           ///< false: the ratio is 1, as is common for biases and norms
};

std::string options_text(const LambOptions&);  ///< names and values of all

/// You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes" (2020), algorithm 2: Adam's
/// direction d = m' / (sqrt(v') + epsilon) + weight_decay p, then p -= learning_rate |p| / |d| d; the ratio is 1 where
/// a norm is 0. State: "mean" and "square". It needs whole parameters: no ShardedOptimizer.
class Lamb : public GroupedOptimizer<LambOptions> {
 public:
  /// Throws Error for an option outside its range.
  Lamb(std::vector<Tensor> parameters, double learning_rate, const LambOptions& = {});
  explicit Lamb(const ParameterGroups&);

  bool elementwise() const noexcept override { return false; }
  std::string kind() const override { return "Lamb"; }

 protected:
  void update(std::span<const Update>) override;
  std::vector<std::string> state_names(std::size_t group) const override;
};

}  // namespace tutti
