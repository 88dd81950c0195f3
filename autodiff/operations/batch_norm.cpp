// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/node.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/composed_calls.h>
#include <tutti/autodiff/operations/normalization.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/memory/thread_cache.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

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

void follow(const Tensor& running_mean, const Tensor& running_var, const BatchStatistics& by, double momentum) {
  if (!running_mean.defined()) return;
  const NoGrad off;
  follow(running_mean, by.mean, by.count, momentum);
  follow(running_var, by.variance * by.unbiased, by.count, momentum);
}

// True if there is a kernel, and channels have planes that are worth one each: of [n, c] they are columns.
bool has_kernel(const Tensor& x, const BatchNormCall& call) {
  constexpr std::int64_t kLeastPlane = 16;
  return call.training && !call.gather && x.size() >= kLeastPlane * x.length(0) * x.length(1) &&
         !ComposedCalls::active() && backend_for(x.device()).has_fused(FusedKernel::normalize_channels);
}

// The kernel's gradient; composed when it is recorded. dy and x of the input's type.
struct ChannelGradient {
  double epsilon;
  SavedTensor x;
  SavedTensor weight;  // its value undefined: none
  Array mean;
  Array variance;
  std::size_t bias_at;    // 0: none
  std::size_t weight_at;  // 0: none

  template <class Restore> void operator()(const Restore& restore, const Tensor& dy, InputGradients& gradients) const {
    const Tensor input = restore(x);
    const Tensor factor = weight_at > 0 ? restore(weight) : Tensor();
    if (grad_enabled())
      compose(widened(input), factor, widened(dy), gradients);
    else
      run(input.array(), factor.defined() ? factor.array() : Array(), dy.array(), gradients);
  }

 private:
  bool wants(const InputGradients& gradients, std::size_t at) const { return at > 0 && gradients.wanted(at); }

  // With n = (x - mean) scale: dx = weight scale (dy - mean(dy) - n mean(dy n)), dweight = sum(dy n), dbias = sum(dy).
  void compose(const Tensor& input, const Tensor& factor, const Tensor& dy, InputGradients& gradients) const {
    const Axes axes = all_but_channels(input);
    const BatchStatistics by = statistics_of(input, {});
    const Tensor scale = 1.0 / sqrt(by.variance + epsilon);
    const Tensor n = (input - by_channel(by.mean, input)) * by_channel(scale, input);
    const Tensor along = sum(dy * n, axes);
    const Tensor level = sum(dy, axes);
    const double count = static_cast<double>(input.size()) / static_cast<double>(input.length(1));
    const Tensor slope = factor.defined() ? scale * factor : scale;
    const Tensor dx =
        by_channel(slope, input) * (dy - by_channel(level / count, input) - n * by_channel(along / count, input));
    gradients.set(0, cast(dx, x.value.dtype()));
    if (wants(gradients, weight_at)) gradients.set(weight_at, along);
    if (wants(gradients, bias_at)) gradients.set(bias_at, level);
  }

  void run(const Array& input, const Array& factor, const Array& dy, InputGradients& gradients) const {
    const ChannelGradientsWanted wanted{gradients.wanted(0), wants(gradients, weight_at), wants(gradients, bias_at),
                                        wants(gradients, weight_at) ? gradients.destination(weight_at) : Array(),
                                        wants(gradients, bias_at) ? gradients.destination(bias_at) : Array()};
    const ChannelGradients found = normalize_channels_gradient(epsilon, input, factor, mean, variance, dy, wanted);
    if (wanted.input) gradients.set(0, Tensor(found.input));
    if (wanted.weight) gradients.set(weight_at, Tensor(found.weight));
    if (wanted.bias) gradients.set(bias_at, Tensor(found.bias));
  }
};

// Weight and bias of the type that x is computed in, or undefined.
Tensor by_kernel(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                 const Tensor& bias, const BatchNormCall& call) {
  // The bias before the weight: gradients are then final in the reverse order of a layer's parameters, as everywhere.
  CachedVector<Tensor> inputs{x};
  if (bias.defined()) inputs.push_back(bias);
  if (weight.defined()) inputs.push_back(weight);
  const std::size_t weight_at = weight.defined() ? inputs.size() - 1 : 0;
  const auto array_of = [](const Tensor& operand) { return operand.defined() ? operand.array() : Array(); };
  NormalizedChannels run = normalize_channels(call.eps, x.array(), array_of(weight), array_of(bias));
  const double count = static_cast<double>(x.size()) / static_cast<double>(x.length(1));
  follow(running_mean, running_var, {Tensor(run.mean), Tensor(run.variance), Tensor(count / (count - 1)), {}},
         call.momentum);
  return record("batch_norm", std::move(run.output), inputs, [&] {
    return ChannelGradient{
        call.eps, save(x, 0),   weight.defined() ? save(weight, static_cast<int>(weight_at)) : SavedTensor{},
        run.mean, run.variance, std::size_t{bias.defined() ? 1U : 0U},
        weight_at};
  });
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
  const DType wide = computed_in(narrow.dtype());
  const auto as_wide = [&](const Tensor& operand) { return operand.defined() ? cast(operand, wide) : operand; };
  if (has_kernel(narrow, call)) {
    const Tensor wide_weight = as_wide(weight);  // before the bias's, whose gradient is to be final first
    const Tensor wide_bias = as_wide(bias);
    return by_kernel(narrow, running_mean, running_var, wide_weight, wide_bias, call);
  }
  const Tensor x = widened(narrow);
  BatchStatistics by;
  if (call.training)
    by = statistics_of(x, call.gather);
  else
    by = {as_wide(running_mean), as_wide(running_var), {}, {}};
  if (call.training) follow(running_mean, running_var, by, call.momentum);
  Tensor scale = 1.0 / sqrt(by.variance + call.eps);
  if (weight.defined()) scale = scale * as_wide(weight);
  Tensor y = (x - by_channel(by.mean, x)) * by_channel(scale, x);
  if (bias.defined()) y = y + by_channel(bias, x);
  return cast(y, narrow.dtype());
}

}  // namespace tutti
