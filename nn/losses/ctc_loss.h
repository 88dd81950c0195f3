// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/nn/losses/loss_reduction.h>

#include <cstdint>
#include <vector>

namespace tutti {

/// How many of the steps and labels of each sequence of a batch count; what lies behind is not looked at.
struct CtcLengths {
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> targets;
};

struct CtcOptions {
  LossReduction reduction = LossReduction::mean;
  std::int64_t blank = 0;      ///< the class that stands for no label
  bool zero_infinity = false;  ///< targets that no path leads to (too few steps for the labels) count 0, not infinity
};

/// Graves et al., "Connectionist Temporal Classification" (2006): -log of the probability that a sequence of classes,
/// without repetitions and then without blanks, is the targets. Log probabilities (a log_softmax) [time, batch,
/// classes] floating and targets [batch, labels], class numbers of any integer type -> [batch]; the mean is that of
/// losses divided by the number of their labels, at least 1. A target that is the blank has no meaning.
///
/// As torch.nn.functional.ctc_loss, but differentiable twice, with the gradient of log probabilities as they are (that
/// of PyTorch is right behind a log_softmax alone), which is 0 for an infinite loss. Some ten operations on [batch, 2
/// labels + 1] for each step of time. bf16 and f16 are computed in f32. Throws ShapeError or DTypeError for operands
/// that do not fit, Error for lengths and a blank out of range; a class number out of range throws ShapeError when the
/// kernel runs. Lengths are values of the host, so that a captured step cannot have it: CaptureError.
Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets, const CtcLengths&, const CtcOptions& = {});

}  // namespace tutti
