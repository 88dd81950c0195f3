// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/optimizer.h>

namespace tutti {

struct AdamWOptions {
  double beta1 = 0.9;          ///< in [0, 1)
  double beta2 = 0.999;        ///< in [0, 1)
  double epsilon = 1e-8;       ///< > 0
  double weight_decay = 0.01;  ///< decoupled from the gradient; >= 0
};

/// Adam with decoupled weight decay: see AdamWStep. State: "mean" and "square", running averages of g and g^2. The bias
/// correction counts a parameter's own steps, so that one that got its first gradient late is corrected like the
/// others.
class AdamW : public Optimizer {
 public:
  /// Throws Error for an option outside its range.
  AdamW(std::vector<Tensor> parameters, double learning_rate, const AdamWOptions& = {});

  const AdamWOptions& options() const noexcept { return options_; }

 protected:
  void update(std::span<const Update>) override;
  std::string refuses_rows() const override;
  std::vector<std::string> state_names() const override;

 private:
  AdamWOptions options_;
};

}  // namespace tutti
