// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/formulas/optimizer_rules.h>

#include <cmath>
#include <vector>

namespace tutti::samples {

/// Every formula that a rule can lead to.
inline const OptimizerRule kOptimizerRules[] = {
    SgdStep{.rate = 0.1, .weight_decay = 0.01, .gradient_scale = 0.3},
    SgdStep{.rate = 0.1, .momentum = 0.9, .dampening = 0.2, .first = true},
    SgdStep{.rate = 0.1, .momentum = 0.9, .dampening = 0.2, .gradient_scale = 0.7, .nesterov = true},
    AdamStep{.rate = 0.1, .step = 7},
    AdamStep{.rate = 0.1, .beta1 = 0.5, .epsilon = 0.1, .weight_decay = 0.1, .amsgrad = true, .step = 2},
    AdamWStep{.rate = 0.1, .step = 7},
    RmspropStep{.rate = 0.1},
    RmspropStep{.rate = 0.1, .weight_decay = 0.01, .momentum = 0.9},
    RmspropStep{.rate = 0.1, .alpha = 0.5, .centered = true},
    RmspropStep{.rate = 0.1, .alpha = 0.5, .momentum = 0.5, .centered = true},
    AdagradStep{.rate = 0.1, .weight_decay = 0.01},
    AdadeltaStep{.rate = 0.1, .weight_decay = 0.01},
    RAdamStep{.rate = 0.1, .weight_decay = 0.01, .step = 3},
    RAdamStep{.rate = 0.1, .weight_decay = 0.01, .decoupled = true, .step = 7},
    LionStep{.rate = 0.1, .weight_decay = 0.01},
    LambDirection{.weight_decay = 0.01, .step = 3},
};

/// Ordinary numbers; the state is positive.
inline RuleOperands rule_operands(std::int64_t size, DType dtype, int phase) {
  const auto numbers = [&](double shift, double center) {
    std::vector<double> values(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = center + std::sin(static_cast<double>(i) + shift + phase);
    return Array::from(values, {size}, cpu()).cast(dtype).copy();
  };
  return {numbers(0, 0), numbers(1, 0), {numbers(2, 2), numbers(3, 2), numbers(4, 2)}};
}

}  // namespace tutti::samples
