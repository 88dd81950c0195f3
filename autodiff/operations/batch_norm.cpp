// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/normalization.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

namespace tutti {

namespace {

struct BatchStatistics {
  Tensor mean;      // [c]
  Tensor variance;  // [c], biased
  Tensor unbiased;  // its factor, n / (n - 1), where n > 1
  Tensor count;     // n, [1], where it is known to the device alone; undefined: more than one
};

Axes all_but_channels(const Tensor& x) {
  Axes axes;
  for (std::size_t i = 0; i < x.rank(); ++i)
    if (i != 1) axes.push_back(static_cast<std::int64_t>(i));
  return axes;
}

Tensor by_channel(const Tensor& values, const Tensor& x) {
  Shape shape(x.rank(), 1);
  shape[1] = x.length(1);
  return reshape(cast(values, x.dtype()), shape);
}

// Of several parts of a batch, [parts, mean of each channel | sum of squared deviations of each | count]: Chan et al.,
// "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances" (1979).
BatchStatistics combined(const Tensor& parts, std::int64_t channels) {
  const Tensor means = slice(parts, 1, 0, channels);
  const Tensor squares = slice(parts, 1, channels, 2 * channels);
  const Tensor counts = slice(parts, 1, 2 * channels, 2 * channels + 1);
  const Tensor count = sum(counts, {0});
  const Tensor divisor = maximum(count, 1.0);
  const Tensor mean = sum(counts * means, {0}) / divisor;
  return {mean, (sum(squares, {0}) + sum(counts * square(means - mean), {0})) / divisor,
          count / maximum(count - 1.0, 1.0), count};
}

BatchStatistics statistics_of(const Tensor& x, const GatherStatistics& gather) {
  const Axes axes = all_but_channels(x);
  const std::int64_t channels = x.length(1);
  const double count = static_cast<double>(x.size()) / static_cast<double>(channels);
  const double divisor = count > 0 ? count : 1;  // nothing here, and others have the rest
  const Tensor mean = sum(x, axes) / divisor;
  const Tensor squares = sum(square(x - by_channel(mean, x)), axes);
  if (!gather) return {mean, squares / divisor, Tensor(count / (count - 1)), {}};
  const Tensor part[] = {mean, squares, Tensor(Array::full({1}, count, x.dtype(), x.device()))};
  return combined(gather(expand_dims(concatenate(part), 0)), channels);
}

// `count` is the batch's: of no values there is nothing to follow.
void follow(const Tensor& running, const Tensor& batch, const Tensor& count, double momentum) {
  const Tensor old = cast(running, batch.dtype());
  Tensor next = old * (1 - momentum) + batch * momentum;
  if (count.defined()) next = where(count > 0.0, next, old);
  Array target = running.array();
  target.copy_from(cast(next, running.dtype()).array());
}

void check(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
           const Tensor& bias, const BatchNormCall& call) {
  if (x.rank() < 2 || x.length(1) == 0)
    raise<ShapeError>("[batch_norm] needs [n, c, ...] with channels, got {}", to_string(x.shape()));
  const std::int64_t channels = x.length(1);
  const auto fits = [&](std::string_view what, const Tensor& operand) {
    if (!operand.defined() || operand.shape() == Shape{channels}) return;
    if (operand.rank() != 1)
      raise<ShapeError>("[batch_norm] {} {} is not one number for each channel", what, to_string(operand.shape()));
    raise<ShapeError>("[batch_norm] the input {} has {} channels, {} is for {}", to_string(x.shape()), channels, what,
                      operand.length(0));
  };
  fits("the running mean", running_mean);
  fits("the running variance", running_var);
  fits("the weight", weight);
  fits("the bias", bias);
  if (running_mean.defined() != running_var.defined())
    raise<ShapeError>("[batch_norm] needs both a running mean and a running variance, or neither");
  if (!call.training && !running_mean.defined())
    raise<ShapeError>("[batch_norm] evaluation needs a running mean and variance");
  if (call.training && !call.gather && x.size() <= x.length(1))
    raise<ShapeError>("[batch_norm] training needs more than one value a channel, got {}", to_string(x.shape()));
}

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                  const Tensor& bias, const BatchNormCall& call) {
  const OperationScope scope("batch_norm", input, running_mean, running_var, weight, bias);
  const Tensor narrow = promote_into(elementwise::Domain::floating, "batch_norm", input);
  check(narrow, running_mean, running_var, weight, bias, call);
  const Tensor x = widened(narrow);
  BatchStatistics by;
  if (call.training)
    by = statistics_of(x, call.gather);
  else
    by = {cast(running_mean, x.dtype()), cast(running_var, x.dtype()), {}, {}};
  if (call.training && running_mean.defined()) {
    const NoGrad off;
    follow(running_mean, by.mean, by.count, call.momentum);
    follow(running_var, by.variance * by.unbiased, by.count, call.momentum);
  }
  Tensor scale = 1.0 / sqrt(by.variance + call.eps);
  if (weight.defined()) scale = scale * cast(weight, x.dtype());
  Tensor y = (x - by_channel(by.mean, x)) * by_channel(scale, x);
  if (bias.defined()) y = y + by_channel(bias, x);
  return cast(y, narrow.dtype());
}

}  // namespace tutti
