// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/losses/loss_reduction.h>

namespace tutti {

struct BinaryLossOptions {
  LossReduction reduction = LossReduction::mean;
  Tensor weight = {};  ///< broadcast to the operands' shape: what each element counts; the mean divides by their number
};

struct BinaryLogitsOptions {
  LossReduction reduction = LossReduction::mean;
  Tensor weight = {};
  Tensor pos_weight = {};  ///< broadcast to the operands' shape: what the positive part of each target counts
};

/// -(t log p + (1 - t) log(1 - p)), p = sigmoid(logit), for targets t in [0, 1], of one floating shape. Computed as
/// t softplus(-x) pos_weight + (1 - t) softplus(x), which neither overflows nor rounds to 0. Throws ShapeError for
/// shapes that differ, a weight that cannot be broadcast to them, and the mean of no elements; DTypeError unless both
/// operands are floating.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets, const BinaryLogitsOptions& = {});

/// Binary cross-entropy of probabilities in [0, 1]. As in PyTorch, logarithms are at least -100, and the gradient's
/// denominator p (1 - p) is at least 1e-12. Errors are those of binary_cross_entropy_with_logits. Prefer logits.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets, const BinaryLossOptions& = {});

}  // namespace tutti
