// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/losses/classification_loss.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/index_meaning.h>
#include <tutti/backend/raise.h>

namespace tutti {
namespace {

/// Logits and how to read them, checked.
struct Classes {
  std::string_view operation;
  const Tensor& values;  // logits or log probabilities
  std::size_t axis;
  std::int64_t count;

  Classes(std::string_view name, const Tensor& x, std::int64_t class_axis) : operation(name), values(x) {
    const auto rank = static_cast<std::int64_t>(x.rank());
    if (rank == 1) class_axis = 0;
    if (class_axis < -rank || class_axis >= rank)
      raise<ShapeError>("[{}] logits {} have no class axis {}", name, to_string(x.shape()), class_axis);
    if (!is_floating(x.dtype())) raise<DTypeError>("[{}] logits are {}, not floating", name, to_string(x.dtype()));
    axis = static_cast<std::size_t>(class_axis < 0 ? class_axis + rank : class_axis);
    count = x.shape()[axis];
  }

  std::int64_t signed_axis() const { return static_cast<std::int64_t>(axis); }

  void check_numbers(const Tensor& targets) const {
    Shape expected = values.shape();
    expected.erase(axis);
    if (targets.shape() != expected)
      raise<ShapeError>("[{}] logits {} with classes along axis {} need targets {}, got {}", operation,
                        to_string(values.shape()), axis, to_string(expected), to_string(targets.shape()));
    if (!is_integral(targets.dtype()))
      raise<DTypeError>(
          "[{}] targets {} must be class numbers, integers, or probabilities of the shape of logits {}; got {}",
          operation, to_string(targets.shape()), to_string(values.shape()), to_string(targets.dtype()));
  }

  /// In the logits' dtype; undefined stays so.
  Tensor weight(const Tensor& weight) const {
    if (!weight.defined()) return weight;
    if (weight.shape() != Shape{count})
      raise<ShapeError>("[{}] weight {} does not have one number for each of {} classes", operation,
                        to_string(weight.shape()), count);
    return cast(weight, values.dtype());
  }

  /// One number for each class, shaped to lie along the class axis.
  Tensor along_axis(const Tensor& weight) const {
    Shape shape(values.rank(), 1);
    shape[axis] = count;
    return reshape(weight, shape);
  }
};

/// The mean is weighted where weights or ignored examples are.
Tensor reduce_weighted(const Classes& classes, const Tensor& losses, const Tensor& weights, const Tensor& kept,
                       LossReduction reduction) {
  if (reduction != LossReduction::mean || losses.size() == 0 || (!weights.defined() && !kept.defined()))
    return reduce_loss(classes.operation, losses, reduction);
  if (!weights.defined()) return sum(losses) / sum(cast(kept, losses.dtype()));
  return sum(losses) / sum(kept.defined() ? where(kept, weights, 0.0) : weights);
}

Tensor likelihood_loss(const Classes& classes, const Tensor& log_probabilities, const Tensor& given,
                       const CrossEntropyOptions& options) {
  classes.check_numbers(given);
  const Tensor targets = cast(given, DType::i64);
  const std::int64_t axis = classes.signed_axis();
  const IndexMeaning meaning{.operation = classes.operation,
                             .index = "target",
                             .range = "classes",
                             .shape = targets.shape(),
                             .ignored = options.ignore_index};
  const IndexScope class_numbers(meaning);
  const Tensor kept = options.ignore_index ? targets != *options.ignore_index : Tensor();
  const Tensor numbers = kept.defined() ? where(kept, targets, 0) : targets;
  const Tensor weight = classes.weight(options.weight);
  const Tensor weights = weight.defined() ? embedding(weight, numbers) : weight;

  Tensor losses = -squeeze(gather_places(log_probabilities, axis, expand_dims(numbers, axis)), {axis});
  if (weights.defined()) losses = losses * weights;
  if (const double smoothing = options.label_smoothing; smoothing > 0) {
    const Tensor all = weight.defined() ? log_probabilities * classes.along_axis(weight) : log_probabilities;
    losses = losses * (1 - smoothing) - sum(all, {axis}) * (smoothing / static_cast<double>(classes.count));
  }
  if (kept.defined()) losses = where(kept, losses, 0.0);
  return reduce_weighted(classes, losses, weights, kept, options.reduction);
}

Tensor soft_loss(const Classes& classes, const Tensor& log_probabilities, const Tensor& targets,
                 const CrossEntropyOptions& options) {
  if (options.ignore_index)
    raise("[cross_entropy] index {} cannot be ignored: targets are probabilities, not class numbers",
          *options.ignore_index);
  const Tensor weight = classes.weight(options.weight);
  const double smoothing = options.label_smoothing;
  const Tensor smoothed =
      smoothing > 0 ? targets * (1 - smoothing) + smoothing / static_cast<double>(classes.count) : targets;
  const Tensor terms = smoothed * log_probabilities;
  const Tensor losses = -sum(weight.defined() ? terms * classes.along_axis(weight) : terms, {classes.signed_axis()});
  return reduce_loss("cross_entropy", losses, options.reduction);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const OperationScope scope("cross_entropy", logits, targets, options.weight);
  const Classes classes("cross_entropy", logits, options.class_axis);
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    raise("[cross_entropy] label smoothing {} is not in [0, 1]", options.label_smoothing);
  const bool soft = is_floating(targets.dtype()) && targets.shape() == logits.shape();
  if (!soft && targets.shape() == logits.shape())
    raise<DTypeError>("[cross_entropy] targets {} of the logits' shape are probabilities, which are floating, not {}",
                      to_string(targets.shape()), to_string(targets.dtype()));
  if (!soft) classes.check_numbers(targets);
  const Tensor log_probabilities = log_softmax(logits, classes.signed_axis());
  return soft ? soft_loss(classes, log_probabilities, targets, options)
              : likelihood_loss(classes, log_probabilities, targets, options);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, LossReduction reduction) {
  return cross_entropy(logits, targets, {.reduction = reduction});
}

Tensor nll_loss(const Tensor& given, const Tensor& targets, const NllOptions& options) {
  const OperationScope scope("nll_loss", given, targets, options.weight);
  const Tensor log_probabilities = autocast("nll_loss", given);
  const Classes classes("nll_loss", log_probabilities, options.class_axis);
  return likelihood_loss(
      classes, log_probabilities, targets,
      {.reduction = options.reduction, .weight = options.weight, .ignore_index = options.ignore_index});
}

Tensor kl_div(const Tensor& given_input, const Tensor& given_target, const KlDivOptions& options) {
  const OperationScope scope("kl_div", given_input, given_target);
  if (given_input.shape() != given_target.shape())
    raise<ShapeError>("[kl_div] input {} and target {} differ in shape", to_string(given_input.shape()),
                      to_string(given_target.shape()));
  const Tensor input = autocast("kl_div", given_input);
  const Tensor target = autocast("kl_div", given_target);
  if (options.log_target) return reduce_loss("kl_div", exp(target) * (target - input), options.reduction);
  // The logarithm of 1 in place of that of 0: so that neither the value nor the gradient is NaN.
  // That of a negative target is NaN, as it should be.
  const Tensor zero = target == 0;
  const Tensor entropy = where(zero, 0, target * log(where(zero, 1, target)));
  return reduce_loss("kl_div", entropy - target * input, options.reduction);
}

}  // namespace tutti
