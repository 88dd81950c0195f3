// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/loss_reduction.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>

namespace tutti {

Tensor reduce_loss(std::string_view operation, const Tensor& losses, LossReduction reduction) {
  if (reduction == LossReduction::none) return losses;
  if (reduction == LossReduction::sum) return sum(losses);
  if (losses.size() == 0)
    raise<ShapeError>("[{}] the mean of no examples is undefined; skip the empty batch or ask for the sum", operation);
  return mean(losses);
}

}  // namespace tutti
