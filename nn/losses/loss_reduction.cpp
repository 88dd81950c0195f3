// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/losses/loss_reduction.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/empty_batch.h>

namespace tutti {

Tensor reduce_loss(std::string_view operation, const Tensor& losses, LossReduction reduction) {
  checks::require_enumerator(operation, "LossReduction", reduction, LossReduction::batch_mean);
  if (reduction == LossReduction::none) return losses;
  if (reduction == LossReduction::sum) return sum(losses);
  if (losses.size() == 0 && EmptyBatch::active()) return sum(losses);
  if (losses.size() == 0)
    raise<ShapeError>("[{}] the mean of no examples is undefined; skip the empty batch or ask for the sum", operation);
  if (reduction == LossReduction::mean) return mean(losses);
  if (losses.rank() == 0) raise<ShapeError>("[{}] a batch mean needs a first axis, of examples", operation);
  return sum(losses) / losses.length(0);
}

}  // namespace tutti
