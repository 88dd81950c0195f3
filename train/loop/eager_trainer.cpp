// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/eager_trainer.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/batch_norm_sync.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/exchange/files/utf8.h>
#include <tutti/nn/empty_batch.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/gradient_scaler.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

namespace tutti {
namespace {

Tensor total_loss(const Losses& losses) {
  Tensor total;
  for (const auto& [name, value] : losses)
    if (detail::is_loss(name)) total = total.defined() ? total + value : value;
  if (!total.defined()) raise<Error>("[trainer] no result has \"loss\" in its name: there is nothing to minimise");
  return total;
}

/// Names are lines of the text that devices send each other, and keys of files.
void check_results(const Losses& losses) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const auto& [name, value] = losses[i];
    if (name.empty() || name.find('\n') != std::string::npos || !detail::is_utf8(name))
      raise<Error>("[trainer] result {} is called \"{}\": a name is one line of UTF-8, and not empty", i, name);
    if (name == "total_loss" || name == "data_time" || name == "iteration")
      raise<Error>("[trainer] a result is called \"{}\", as what the trainer itself reports", name);
    for (std::size_t j = 0; j < i; ++j)
      if (losses[j].first == name) raise<Error>("[trainer] two results are called \"{}\"", name);
    if (!value.defined()) raise<Error>("[trainer] result \"{}\" is undefined", name);
    if (value.size() != 1)
      raise<ShapeError>("[trainer] result \"{}\" is {} {}: a loss or metric is one number", name,
                        to_string(value.dtype()), to_string(value.shape()));
  }
}

void check_options(const EagerOptions& options) {
  if (options.accumulation < 1)
    raise<Error>("[trainer] accumulation is {}: it must be at least 1", options.accumulation);
  for (const auto& [name, limit] : {std::pair("max_norm", options.max_norm), std::pair("max_value", options.max_value)})
    if (limit && !(*limit > 0)) raise<Error>("[trainer] {} is {}: it must be positive", name, *limit);
  if (options.metrics_every < 0) raise<Error>("[trainer] metrics_every is {}: below 0", options.metrics_every);
  if (options.sync == nullptr) return;
  const SyncOptions& sync = options.sync->server().options();
  if (options.accumulation > 1 && sync.reduction != GradientReduction::weighted_mean)
    raise<Error>("[trainer] accumulation {} needs GradientReduction::weighted_mean, which divides by all examples",
                 options.accumulation);
  const bool looks_at_all = options.max_norm || options.max_value || options.scaler != nullptr;
  if (sync.overlap == Overlap::in_backward && (looks_at_all || options.accumulation > 1))
    raise<Error>("[trainer] Overlap::in_backward uses each gradient at once: no accumulation, clipping or scaler");
  if (sync.overlap == Overlap::double_buffered && options.scaler != nullptr)
    raise<Error>(
        "[trainer] with Overlap::double_buffered gradients come a step late, and the scale is another by then");
}

/// An optimizer of another model's parameters, as of the one that replicas were made from, would train nothing.
void check_trains(Module& model, const std::vector<Tensor>& optimized) {
  const std::vector<Tensor> own = model.parameters();
  const auto is_own = [&](const Tensor& parameter) {
    return std::ranges::any_of(own, [&](const Tensor& other) { return other.is_same(parameter); });
  };
  if (!own.empty() && !optimized.empty() && std::ranges::none_of(optimized, is_own))
    raise<Error>("[trainer] the optimizer has none of the model's {} parameters", own.size());
}

}  // namespace

EagerTrainerBase::EagerTrainerBase(Module& model, Optimizer& optimizer, EagerOptions options)
    : model_(model),
      optimizer_(optimizer),
      options_(std::move(options)),
      passes_empty_batches_(options_.sync != nullptr &&
                            (options_.pass_empty_batches || has_synchronized_batch_norms(model))),
      parameters_(optimizer.parameters()) {
  check_options(options_);
  if (options_.sparse_optimizer != nullptr) {
    const std::vector<Tensor>& sparse = options_.sparse_optimizer->parameters();
    parameters_.insert(parameters_.end(), sparse.begin(), sparse.end());
  }
  check_trains(model, parameters_);
}

EagerTrainerBase::~EagerTrainerBase() = default;

// Before training the model may be in evaluation mode, and is so again after an evaluation.
void EagerTrainerBase::set_training(bool training) {
  if (!training) was_training_ = model_.training();
  model_.train(training && (running() || was_training_));
}

Losses EagerTrainerBase::forward(const std::function<Losses()>& losses) const {
  std::optional<Autocast> autocast;
  if (options_.autocast != DType::f32) autocast.emplace(options_.autocast);
  try {
    Losses results = losses();
    check_results(results);
    return results;
  } catch (const DeviceError& error) {
    const bool several = options_.sync != nullptr && options_.sync->world().devices > 1;
    if (!several || std::string_view(error.what()).find("are on different devices") == std::string_view::npos) throw;
    raise<DeviceError>(
        "{}. (A member that the model's `visit` does not show stays on the device that it was made on, and every "
        "replica reads it there.)",
        error.what());
  }
}

Tensor EagerTrainerBase::minimised(const Losses& losses) {
  const Tensor loss = total_loss(losses);
  if (!options_.allow_other_leaves) untrained_leaves_.check(model_, parameters_, loss);
  return options_.scaler != nullptr ? options_.scaler->scale(loss) : loss;
}

Losses EagerTrainerBase::pass_eagerly(const std::function<Losses()>& losses, Step* step, double scale) {
  Losses results = forward(losses);
  const Tensor loss = minimised(results);
  if (step != nullptr)
    step->backward(loss);
  else
    backward(loss, {.scale = scale});
  return results;
}

void EagerTrainerBase::take_batch(double weight, const Pass& pass) {
  if (!model_.training())
    raise<Error>("[trainer] the model was changed to evaluation mode; evaluate() changes it back");
  if (!(weight >= 0 && std::isfinite(weight)))
    raise<Error>("[trainer] the examples of step {} weigh {}: a weight is finite and not negative", iteration(),
                 weight);
  if (pending_ == 0) zero_grad();
  const bool last = pending_ + 1 == options_.accumulation;
  if (options_.sync != nullptr && !step_) step_ = std::make_unique<Step>(options_.sync->step(options_.device, weight));
  Losses results;
  if (weight > 0)
    results = pass_weighted(weight, pass, last);
  else if (passes_empty_batches_ && pass)
    pass_empty(pass, last);
  else if (step_ && last)
    step_->synchronize();
  ++pending_;
  pending_weight_ += weight;
  keep(results, weight);
  if (last) update();
}

Losses EagerTrainerBase::pass_weighted(double weight, const Pass& pass, bool last) {
  // Alone: divided by all examples before the update.
  if (!step_) return pass(nullptr, options_.accumulation > 1 ? weight : 1.0);
  if (!last) {
    const NoSync local = step_->no_sync(weight);
    return pass(nullptr, 1.0);
  }
  step_->set_weight(weight);
  return pass(step_.get(), 1.0);
}

// For the collectives that others wait for; there is nothing to report of it.
void EagerTrainerBase::pass_empty(const Pass& pass, bool last) {
  const EmptyBatch of_no_examples;
  pass_weighted(0, pass, last);
}

void EagerTrainerBase::update() {
  const double weight = std::exchange(pending_weight_, 0);
  pending_ = 0;
  std::unique_ptr<Step> step = std::exchange(step_, nullptr);
  ++updates_;
  if (overlap() != Overlap::double_buffered) {
    count_samples(step ? step->total_weight() : weight);
  } else {  // what is applied now is of the step before, unless that was flushed
    if (on_its_way_) count_samples(step->total_weight());
    on_its_way_ = std::move(step);
  }
  if (overlap() == Overlap::in_backward) return;
  if (options_.sync == nullptr && options_.accumulation > 1 && weight > 0) multiply_gradients(parameters_, 1 / weight);
  try {
    apply_gradients();
  } catch (...) {  // the others hear of the cause, before they would of a step that was unwound
    if (options_.sync != nullptr) options_.sync->fail(options_.device, std::current_exception());
    throw;
  }
}

// Without any there were no examples, or with double buffering they are on their way: that is no step.
void EagerTrainerBase::apply_gradients() {
  const auto has_gradient = [](const Tensor& parameter) {
    return parameter.has_sparse_grad() ? parameter.sparse_grad().defined() : parameter.grad().defined();
  };
  if (std::ranges::none_of(parameters_, has_gradient)) return;
  if (options_.scaler != nullptr) {
    const bool finite = options_.scaler->unscale(parameters_);
    options_.scaler->update(finite);
    if (!finite) return;
  }
  if (options_.max_value) clip_grad_value(parameters_, *options_.max_value);
  if (options_.max_norm) clip_unread_norm(parameters_, *options_.max_norm);
  optimizer_.step();
  if (options_.sparse_optimizer != nullptr) options_.sparse_optimizer->step();
}

void EagerTrainerBase::count_samples(double weight) { storage().set_samples(storage().samples() + weight); }

void EagerTrainerBase::zero_grad() {
  optimizer_.zero_grad();
  if (options_.sparse_optimizer != nullptr) options_.sparse_optimizer->zero_grad();
}

Overlap EagerTrainerBase::overlap() const {
  return options_.sync != nullptr ? options_.sync->server().options().overlap : Overlap::immediate;
}

void EagerTrainerBase::finish_updates() {
  if (pending_ == 0) return;
  if (step_) step_->synchronize();
  update();
}

void EagerTrainerBase::settle() {
  if (overlap() != Overlap::double_buffered || !options_.sync->flush(options_.device)) return;
  if (on_its_way_) count_samples(on_its_way_->total_weight());
  on_its_way_.reset();
  apply_gradients();
  zero_grad();
}

void EagerTrainerBase::finish_training() {
  if (unwritten_) write_metrics();
  settle();
}

void EagerTrainerBase::stop(std::string reason) {
  if (options_.sync != nullptr && options_.sync->world().devices > 1)
    raise<Error>("[trainer] {} cannot stop by itself: the group's others would wait. A DataParallelLearner stops all",
                 to_string(options_.device));
  Trainer::stop(std::move(reason));
}

void EagerTrainerBase::failed(std::exception_ptr error) {
  if (options_.sync == nullptr && pending_ > 0) zero_grad();
  pending_ = 0;
  pending_weight_ = 0;
  results_.clear();
  unread_.clear();
  measured_ = {};
  unwritten_ = false;
  on_its_way_.reset();
  if (options_.sync == nullptr) return;
  try {
    if (step_)
      step_->fail(error);
    else
      options_.sync->fail(options_.device, error);
  } catch (...) {  // the group has failed before: everyone knows
  }
  step_.reset();
}

Metrics EagerTrainerBase::evaluate_on(const std::function<Losses()>& losses) {
  Metrics metrics;
  for (const auto& [name, value] : forward(losses)) metrics[name] = value.item<double>();
  return metrics;
}

}  // namespace tutti
