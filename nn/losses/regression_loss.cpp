// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/losses/regression_loss.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

namespace tutti {
namespace {

Tensor difference(std::string_view operation, const Tensor& prediction, const Tensor& target) {
  if (prediction.shape() != target.shape())
    raise<ShapeError>("[{}] prediction {} and target {} differ in shape", operation, to_string(prediction.shape()),
                      to_string(target.shape()));
  return autocast(operation, prediction) - autocast(operation, target);
}

/// With c = d cut off at +-delta: c (d - c / 2). Right at the corners too, and twice differentiable at 0.
Tensor huber(const Tensor& d, double delta) {
  const Tensor cut = maximum(minimum(d, Tensor(delta)), Tensor(-delta));
  return cut * (d - cut * 0.5);
}

}  // namespace

Tensor mse_loss(const Tensor& prediction, const Tensor& target, LossReduction reduction) {
  const OperationScope scope("mse_loss", prediction, target);
  return reduce_loss("mse_loss", square(difference("mse_loss", prediction, target)), reduction);
}

Tensor l1_loss(const Tensor& prediction, const Tensor& target, LossReduction reduction) {
  const OperationScope scope("l1_loss", prediction, target);
  return reduce_loss("l1_loss", abs(difference("l1_loss", prediction, target)), reduction);
}

Tensor huber_loss(const Tensor& prediction, const Tensor& target, const HuberOptions& options) {
  const OperationScope scope("huber_loss", prediction, target);
  if (!(options.delta > 0)) raise("[huber_loss] delta {} is not positive", options.delta);
  return reduce_loss("huber_loss", huber(difference("huber_loss", prediction, target), options.delta),
                     options.reduction);
}

Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target, const SmoothL1Options& options) {
  const OperationScope scope("smooth_l1_loss", prediction, target);
  const double beta = options.beta;
  if (!(beta >= 0)) raise("[smooth_l1_loss] beta {} is negative", beta);
  const Tensor d = difference("smooth_l1_loss", prediction, target);
  return reduce_loss("smooth_l1_loss", beta > 0 ? huber(d, beta) * (1 / beta) : abs(d), options.reduction);
}

}  // namespace tutti
