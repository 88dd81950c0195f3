// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/normalization.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <string_view>

namespace tutti {
namespace {

void check(std::string_view layer, const Shape& shape, DType dtype) {
  if (shape.empty() || std::any_of(shape.begin(), shape.end(), [](std::int64_t length) { return length <= 0; }))
    raise<ShapeError>("[{}] lengths must be positive, got {}", layer, to_string(shape));
  if (!is_floating(dtype)) raise<DTypeError>("[{}] needs a floating type, got {}", layer, to_string(dtype));
}

template <class Options> Tensor parameter(const Shape& shape, double value, const Options& options) {
  if (!options.affine) return {};
  return Tensor(Array::full(shape, value, options.dtype, options.device), true);
}

}  // namespace

LayerNorm::LayerNorm(const Shape& normalized, const NormOptions& options) : normalized_(normalized), eps_(options.eps) {
  check("LayerNorm", normalized, options.dtype);
  weight = parameter(normalized, 1, options);
  if (options.bias) bias = parameter(normalized, 0, options);
}

void LayerNorm::visit(MemberVisitor& visitor) {
  visitor.parameter("weight", weight);
  visitor.parameter("bias", bias);
}

RMSNorm::RMSNorm(const Shape& normalized, const RMSNormOptions& options) : normalized_(normalized), eps_(options.eps) {
  check("RMSNorm", normalized, options.dtype);
  weight = parameter(normalized, 1, options);
}

void RMSNorm::visit(MemberVisitor& visitor) { visitor.parameter("weight", weight); }

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const NormOptions& options)
    : groups_(groups), eps_(options.eps) {
  check("GroupNorm", {channels}, options.dtype);
  if (groups <= 0 || channels % groups != 0)
    raise<ShapeError>("[GroupNorm] {} groups do not divide {} channels", groups, channels);
  weight = parameter({channels}, 1, options);
  if (options.bias) bias = parameter({channels}, 0, options);
}

void GroupNorm::visit(MemberVisitor& visitor) {
  visitor.parameter("weight", weight);
  visitor.parameter("bias", bias);
}

BatchNorm::BatchNorm(std::int64_t channels, const BatchNormOptions& options)
    : eps_(options.eps), momentum_(options.momentum) {
  check("BatchNorm", {channels}, options.dtype);
  weight = parameter({channels}, 1, options);
  bias = parameter({channels}, 0, options);
  if (!options.track) return;
  running_mean = Tensor(Array::zeros({channels}, options.dtype, options.device));
  running_var = Tensor(Array::full({channels}, 1, options.dtype, options.device));
}

Tensor BatchNorm::compute(const Tensor& x) const {
  const bool by_batch = training() || !running_mean.defined();
  const BatchNormCall call{by_batch, momentum_, eps_, training() ? gather : GatherStatistics()};
  return batch_norm(x, running_mean, running_var, weight, bias, call);
}

void BatchNorm::visit(MemberVisitor& visitor) {
  visitor.parameter("weight", weight);
  visitor.parameter("bias", bias);
  visitor.buffer("running_mean", running_mean);
  visitor.buffer("running_var", running_var);
}

}  // namespace tutti
