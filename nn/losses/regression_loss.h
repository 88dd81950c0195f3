// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/losses/loss_reduction.h>

namespace tutti {

// Losses of d = prediction - target, for each element. All throw ShapeError unless both have one shape: nothing is
// broadcast. Types are promoted; the loss is [], of their shape with LossReduction::none. ShapeError for the mean of no
// elements.

Tensor mse_loss(const Tensor& prediction, const Tensor& target, LossReduction = LossReduction::mean);  ///< d^2
/// |d|, with the gradient 0 where d is 0.
Tensor l1_loss(const Tensor& prediction, const Tensor& target, LossReduction = LossReduction::mean);

struct HuberOptions {
  LossReduction reduction = LossReduction::mean;
  double delta = 1.0;  ///< positive, else Error
};
/// d^2 / 2 where |d| < delta, else delta (|d| - delta / 2): Huber, "Robust Estimation of a Location Parameter" (1964).
Tensor huber_loss(const Tensor& prediction, const Tensor& target, const HuberOptions& = {});

struct SmoothL1Options {
  LossReduction reduction = LossReduction::mean;
  double beta = 1.0;  ///< not negative, else Error; 0: l1_loss
};
/// d^2 / (2 beta) where |d| < beta, else |d| - beta / 2: Girshick, "Fast R-CNN" (2015).
Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target, const SmoothL1Options& = {});

}  // namespace tutti
