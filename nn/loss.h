// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <cstdint>

namespace tutti {

/// What a loss makes of its value for each example (cross_entropy) or element (mse_loss).
enum class LossReduction : std::uint8_t { mean, sum, none };

/// -log softmax(logits)[target]: logits [n, classes] floating, targets [n] i64 class numbers. Computed from
/// log_softmax, so that large logits neither overflow nor lose their gradient. Throws ShapeError or DTypeError for
/// operands that do not fit and for the mean of no examples; a class number out of range throws ShapeError when the
/// kernel runs.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, LossReduction = LossReduction::mean);

/// (prediction - target)^2. Throws ShapeError unless both have one shape: nothing is broadcast.
Tensor mse_loss(const Tensor& prediction, const Tensor& target, LossReduction = LossReduction::mean);

}  // namespace tutti
