// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/losses/loss_reduction.h>

#include <cstdint>
#include <optional>

namespace tutti {

struct NllOptions {
  LossReduction reduction = LossReduction::mean;
  Tensor weight = {};                             ///< [classes]: what an example of each class counts
  std::optional<std::int64_t> ignore_index = {};  ///< examples with this target count nothing, also in the mean
  std::int64_t class_axis = 1;                    ///< axis of the classes in the logits; those of rank 1 have but one
};

struct CrossEntropyOptions {
  LossReduction reduction = LossReduction::mean;
  Tensor weight = {};
  std::optional<std::int64_t> ignore_index = {};  ///< PyTorch's default is -100; here a class out of range is an error
  std::int64_t class_axis = 1;                    ///< -1: [batch, time, classes], as language models have it
  double label_smoothing = 0.0;                   ///< share of the target that is spread over all classes, in [0, 1]
};

/// -log softmax(logits)[target]. Logits [n, classes, d1, ...] floating and targets of that shape without the class
/// axis, class numbers of any integer type; the loss has the targets' shape. Or targets are probabilities, floating and
/// of the logits' shape: -sum(targets log softmax(logits)) over the classes. Computed from log_softmax, so that large
/// logits neither overflow nor lose their gradient.
///
/// With smoothing s, targets are (1 - s) target + s / classes: Szegedy et al., "Rethinking the Inception Architecture"
/// (2016). The mean over class numbers is divided by the sum of the targets' weights (NaN when all are ignored), that
/// over probabilities by the number of examples. Throws ShapeError or DTypeError for operands that do not fit,
/// ShapeError for the mean of no examples, Error for smoothing outside [0, 1] or an ignored index beside probabilities;
/// a class number out of range throws ShapeError when the kernel runs.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions&);
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, LossReduction = LossReduction::mean);

/// -log_probabilities[target]: cross_entropy for what is a log_softmax already. Operands and errors are its.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const NllOptions& = {});

struct KlDivOptions {
  LossReduction reduction = LossReduction::mean;
  bool log_target = false;  ///< targets are logarithms too: exp(target) (target - input)
};

/// target (log target - input), 0 where the target is 0: the terms of the divergence of Kullback and Leibler, of log
/// probabilities `input` from probabilities `target`, of one shape, else ShapeError; types are promoted. The mean is
/// over all elements, as PyTorch's; the divergence itself, of n examples, is LossReduction::batch_mean. ShapeError for
/// the mean of no elements. NaN where a probability is negative.
Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& = {});

}  // namespace tutti
