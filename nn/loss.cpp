// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/loss.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>

namespace tutti {
namespace {

Tensor reduce_loss(std::string_view operation, const Tensor& losses, LossReduction reduction) {
  if (reduction == LossReduction::none) return losses;
  if (reduction == LossReduction::sum) return sum(losses);
  if (losses.size() == 0)
    raise<ShapeError>("[{}] the mean of no examples is undefined; skip the empty batch or ask for the sum", operation);
  return mean(losses);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, LossReduction reduction) {
  if (logits.rank() != 2 || targets.rank() != 1 || logits.length(0) != targets.length(0))
    raise<ShapeError>("[cross_entropy] needs logits [n, classes] and targets [n], got {} and {}",
                      to_string(logits.shape()), to_string(targets.shape()));
  if (!is_floating(logits.dtype()) || targets.dtype() != DType::i64)
    raise<DTypeError>("[cross_entropy] needs floating logits and i64 targets, got {} and {}", to_string(logits.dtype()),
                      to_string(targets.dtype()));
  const Tensor index(targets.array().expand_dims(1));
  const Tensor log_likelihood = gather(log_softmax(logits, 1), 1, index);
  return reduce_loss("cross_entropy", -reshape(log_likelihood, targets.shape()), reduction);
}

Tensor mse_loss(const Tensor& prediction, const Tensor& target, LossReduction reduction) {
  if (prediction.shape() != target.shape())
    raise<ShapeError>("[mse_loss] shapes differ: {} and {}", to_string(prediction.shape()), to_string(target.shape()));
  return reduce_loss("mse_loss", square(prediction - target), reduction);
}

}  // namespace tutti
