// SPDX-License-Identifier: Apache-2.0
#pragma once

// Normalisation layers as functions, differentiable any number of times. Statistics of bf16 and f16 are computed in
// f32; results have the input's dtype, whatever that of weight and bias. Integers become f32.

#include <tutti/autodiff/tensor.h>

#include <functional>
#include <optional>

namespace tutti {

/// (x - mean) / sqrt(variance + eps) * weight + bias over the last axes, whose lengths are `normalized`; so are those
/// of weight and bias, which may be undefined. Ba et al., "Layer Normalization" (2016). ShapeError for what does not
/// fit.
Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

/// x / sqrt(mean of squares + eps) * weight over the last axes. Zhang and Sennrich, "Root Mean Square Layer
/// Normalization" (2019). No eps: the machine epsilon of the dtype that is computed in, as in PyTorch.
Tensor rms_norm(const Tensor& x, const Shape& normalized, const Tensor& weight = {}, std::optional<double> eps = {});

/// [n, c, ...]: normalises each example's channels in `groups` of neighbours, with all that follows; weight and bias
/// [c] or undefined. Wu and He, "Group Normalization" (2018). ShapeError unless the groups divide the channels.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

/// Brings the statistics of all who share a batch together: one's [1, k] -> [all, k], differentiable, in the same order
/// for all, whatever their number.
using GatherStatistics = std::function<Tensor(const Tensor&)>;

struct BatchNormCall {
  bool training = false;  ///< normalise by this batch, and let the running statistics follow it
  double momentum = 0.1;  ///< share of the batch in the running statistics: (1 - momentum) old + momentum new
  double eps = 1e-5;
  GatherStatistics gather = {};  ///< used in training; none: the batch is all there is
};

/// [n, c, ...]: normalises each channel over all else; weight and bias [c] or undefined. Ioffe and Szegedy, "Batch
/// Normalization" (2015). In training the running mean and variance, [c] or both undefined, are written in place; their
/// variance is the unbiased one. Else x is normalised by them. ShapeError for what does not fit, for evaluation without
/// them, and for training on a single value a channel, unless statistics are gathered.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight = {},
                  const Tensor& bias = {}, const BatchNormCall& = {});

}  // namespace tutti
