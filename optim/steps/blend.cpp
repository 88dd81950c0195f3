// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/steps/blend.h>

#include <tutti/backend/registry.h>

namespace tutti {

// What gradient descent does without momentum: to - 1 (-share from + (1 - keep) to).
void blend(const Array& to, double keep, const Array& from, double share) {
  if (to.size() == 0) return;
  const SgdStep step{.rate = 1.0, .weight_decay = 1.0 - keep, .gradient_scale = -share};
  const RuleOperands operands[] = {{to, from, {}}};
  backend_for(to.device()).optimizer_step(step, operands);
}

}  // namespace tutti
