// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/losses/ctc_loss.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/line_gather.h>
#include <tutti/autodiff/operations/promotion.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/calls/index_meaning.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/recurrent/time_steps.h>

#include <algorithm>
#include <limits>
#include <string_view>

namespace tutti {
namespace {

// The logarithm of no probability: finite, so that gradients are, and so far down that a sum of them stays in f32.
constexpr double kNever = -1e30;

void check_lengths(std::string_view what, const std::vector<std::int64_t>& lengths, std::int64_t batch,
                   std::int64_t most) {
  if (std::ssize(lengths) != batch)
    raise<ShapeError>("[ctc_loss] {} lengths of {} for a batch of {}", lengths.size(), what, batch);
  for (const std::int64_t length : lengths)
    if (length < 0 || length > most) raise("[ctc_loss] a length of {} of {} of at most {}", length, what, most);
}

void check(const Tensor& log_probabilities, const Tensor& targets, const CtcLengths& lengths, std::int64_t blank) {
  if (log_probabilities.rank() != 3)
    raise<ShapeError>("[ctc_loss] log probabilities [time, batch, classes] are needed, not {}",
                      to_string(log_probabilities.shape()));
  if (!is_floating(log_probabilities.dtype()))
    raise<DTypeError>("[ctc_loss] log probabilities are {}, not floating", to_string(log_probabilities.dtype()));
  if (!is_integral(targets.dtype()))
    raise<DTypeError>("[ctc_loss] targets must be class numbers, integers, got {}", to_string(targets.dtype()));
  const std::int64_t batch = log_probabilities.length(1);
  if (targets.rank() != 2 || targets.length(0) != batch)
    raise<ShapeError>("[ctc_loss] log probabilities {} need targets [{}, labels], got {}",
                      to_string(log_probabilities.shape()), batch, to_string(targets.shape()));
  if (blank < 0 || blank >= log_probabilities.length(2))
    raise("[ctc_loss] the blank {} is none of {} classes", blank, log_probabilities.length(2));
  check_lengths("inputs", lengths.inputs, batch, log_probabilities.length(0));
  check_lengths("targets", lengths.targets, batch, targets.length(1));
}

/// Whether place i of a row counts: [lengths, most].
Tensor within(const std::vector<std::int64_t>& lengths, std::int64_t most, Device device) {
  const Tensor length = tensor(lengths, {.device = device});
  return arange(0, most, 1, {.dtype = DType::i64, .device = device}) < expand_dims(length, 1);
}

/// The targets with a blank before, between and behind them: [batch, 2 labels + 1].
Tensor with_blanks(const Tensor& targets, const CtcLengths& lengths, std::int64_t blank) {
  const std::int64_t batch = targets.length(0);
  const Tensor labels = where(within(lengths.targets, targets.length(1), targets.device()), targets, blank);
  const Tensor pairs = stack({full_like(labels, blank), labels}, -1);
  return concatenate({reshape(pairs, {batch, 2 * targets.length(1)}),
                      full({batch, 1}, blank, {.dtype = DType::i64, .device = targets.device()})},
                     1);
}

/// [batch, places]: 0 where a path may come from two places before, between different labels; else kNever.
Tensor leaps(const Tensor& places, DType dtype) {
  const std::int64_t count = places.length(1);
  Tensor allowed =
      zeros({places.length(0), std::min<std::int64_t>(count, 2)}, {.dtype = DType::boolean, .device = places.device()});
  if (count > 2) allowed = concatenate({allowed, slice(places, 1, 2, count) != slice(places, 1, 0, count - 2)}, 1);
  return cast(where(allowed, 0.0, kNever), dtype);
}

/// Log probabilities of all paths that end in the last blank or the last label: [batch].
Tensor at_the_end(const Tensor& paths, const std::vector<std::int64_t>& target_lengths) {
  std::vector<std::int64_t> last;
  std::vector<double> absent;
  for (const std::int64_t length : target_lengths) {
    last.insert(last.end(), {2 * length, std::max<std::int64_t>(2 * length - 1, 0)});
    absent.insert(absent.end(), {0.0, length > 0 ? 0.0 : kNever});
  }
  const Shape shape{std::ssize(target_lengths), 2};
  const Tensor ends = gather_places(paths, 1, tensor(last, shape, {.device = paths.device()}));
  const Tensor both = ends + tensor(absent, shape, {.dtype = paths.dtype(), .device = paths.device()});
  return logaddexp(squeeze(slice(both, 1, 0, 1), {1}), squeeze(slice(both, 1, 1, 2), {1}));
}

/// -log of the targets' probability: [batch]; infinity where there is none.
Tensor losses_of(const Tensor& log_probabilities, const Tensor& targets, const CtcLengths& lengths,
                 const CtcOptions& options) {
  const std::int64_t time = log_probabilities.length(0);
  const std::int64_t batch = log_probabilities.length(1);
  const DType dtype = log_probabilities.dtype();
  const Device device = log_probabilities.device();
  const Tensor places = with_blanks(targets, lengths, options.blank);
  const std::int64_t count = places.length(1);
  const Tensor leap = leaps(places, dtype);
  const Tensor given = [&] {
    const IndexMeaning meaning{.operation = "ctc_loss", .index = "target", .range = "classes"};
    const IndexScope class_numbers(meaning);
    return gather_places(log_probabilities, 2, broadcast_to(places, {time, batch, count}));
  }();
  const std::vector<Tensor> steps = time_steps(where(given <= kNever, kNever, given));
  const Tensor counts = expand_dims(within(lengths.inputs, time, device).transpose(), 2);  // [time, batch, 1]
  const bool all_count = std::ranges::all_of(lengths.inputs, [&](std::int64_t length) { return length == time; });
  // Before the first step a path is at the first blank. Two places in front, from which nothing comes.
  std::vector<double> start(static_cast<std::size_t>(count), kNever);
  start.front() = 0;
  const TensorOptions alike{.dtype = dtype, .device = device};
  Tensor paths = broadcast_to(tensor(start, {1, count}, alike), {batch, count});
  for (std::int64_t t = 0; t < time; ++t) {
    const Tensor before = pad(paths, {{0, 0}, {2, 0}}, kNever);
    const Tensor near = logaddexp(paths, slice(before, 1, 1, count + 1));
    const Tensor far = slice(before, 1, 0, count) + leap;
    const Tensor after = logaddexp(near, far) + steps[static_cast<std::size_t>(t)];
    paths = all_count ? after : where(squeeze(slice(counts, 0, t, t + 1), {0}), after, paths);
  }
  const Tensor loss = -at_the_end(paths, lengths.targets);
  const double otherwise = options.zero_infinity ? 0.0 : std::numeric_limits<double>::infinity();
  return where(loss >= -kNever / 2, otherwise, loss);
}

}  // namespace

Tensor ctc_loss(const Tensor& given, const Tensor& given_targets, const CtcLengths& lengths,
                const CtcOptions& options) {
  const OperationScope scope("ctc_loss", given, given_targets);
  const Tensor log_probabilities = autocast("ctc_loss", given);
  check(log_probabilities, given_targets, lengths, options.blank);
  const Tensor targets = cast(given_targets, DType::i64);
  const Tensor losses = losses_of(widened(log_probabilities), targets, lengths, options);
  Tensor result = losses;
  if (options.reduction == LossReduction::mean) {
    std::vector<double> labels;
    for (const std::int64_t length : lengths.targets)
      labels.push_back(std::max<double>(1, static_cast<double>(length)));
    result = losses / tensor(labels, {.dtype = losses.dtype(), .device = losses.device()});
  }
  return cast(reduce_loss("ctc_loss", result, options.reduction), log_probabilities.dtype());
}

}  // namespace tutti
