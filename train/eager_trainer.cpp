// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/eager_trainer.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/exchange/utf8.h>
#include <tutti/optim/clip.h>
#include <tutti/optim/gradient_scaler.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <sstream>

namespace tutti {
namespace {

bool is_loss(std::string_view name) { return name.find("loss") != std::string_view::npos; }

Tensor total_loss(const Losses& losses) {
  Tensor total;
  for (const auto& [name, value] : losses)
    if (is_loss(name)) total = total.defined() ? total + value : value;
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

using Averages = std::map<std::string, RunningAverage, std::less<>>;
constexpr const char* kTotal = "";  // the sum of a step's losses, among them by a name that none has

Metrics means_of(const Averages& averages) {
  Metrics means;
  for (const auto& [name, average] : averages) means[name] = average.mean();
  return means;
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
    : model_(model), optimizer_(optimizer), options_(std::move(options)), parameters_(optimizer.parameters()) {
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
  Losses results = losses();
  check_results(results);
  return results;
}

Tensor EagerTrainerBase::minimised(const Losses& losses) const {
  const Tensor loss = total_loss(losses);
  return options_.scaler != nullptr ? options_.scaler->scale(loss) : loss;
}

Losses EagerTrainerBase::pass_eagerly(const std::function<Losses()>& losses, Step* step, double scale) const {
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
  apply_gradients();
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
  if (options_.max_norm) clip_grad_norm(parameters_, *options_.max_norm);
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
  if (options_.sync != nullptr && options_.sync->devices().size() > 1)
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

// Values are kept as they are until they are asked for: on a GPU the host would wait for each.
void EagerTrainerBase::keep(const Losses& losses, double weight) {
  if (options_.metrics_every == 0) return;
  Losses values;
  for (const auto& [name, value] : losses) values.emplace_back(name, value.detach());
  results_.emplace_back(std::move(values), weight);
}

Metrics EagerTrainerBase::end_step() {
  if (options_.whole_updates) finish_updates();
  if (options_.metrics_every == 0) return {};
  unread_.push_back(std::exchange(results_, {}));
  unwritten_ = true;
  if ((iteration() + 1) % options_.metrics_every != 0) return {};
  return write_metrics();
}

void EagerTrainerBase::add_unread(Measured& measured) const {
  for (const StepResults& step : unread_) {
    double step_weight = 0;
    std::map<std::string, double> sums;
    for (const auto& [losses, weight] : step) {
      double total = 0;
      for (const auto& [name, value] : losses) {
        const auto number = value.item<double>();
        if (!is_loss(name)) {
          sums[name] += number;
          continue;
        }
        measured.averages[name].add(number, weight);
        total += number;
      }
      if (!losses.empty()) measured.averages[kTotal].add(total, weight);
      measured.loss.add(total, weight);
      step_weight += weight;
    }
    for (const auto& [name, sum] : sums) measured.averages[name].add(sum, step_weight);
  }
}

void EagerTrainerBase::read_metrics() {
  add_unread(measured_);
  unread_.clear();
}

std::string EagerTrainerBase::measured() const {
  Measured all = measured_;
  add_unread(all);
  nlohmann::json averages = nlohmann::json::object();
  for (const auto& [name, average] : all.averages) averages[name] = average.to_text();
  return nlohmann::json{{"averages", averages}, {"loss", all.loss.to_text()}}.dump();
}

std::function<void()> EagerTrainerBase::prepare_measured(const std::vector<std::string>& texts) try {
  Measured all;
  const auto add = [](RunningAverage& to, const std::string& text) {
    RunningAverage average;
    average.load_text(text);
    to.merge(average);
  };
  for (const std::string& text : texts) {
    const auto json = nlohmann::json::parse(text);
    for (const auto& [name, average] : json.at("averages").items()) add(all.averages[name], average);
    add(all.loss, json.at("loss"));
  }
  return [this, all = std::move(all)] {
    measured_ = all;
    unread_.clear();
    unwritten_ = options_.metrics_every > 0;
  };
} catch (const nlohmann::json::exception& error) {
  raise<DataError>("[trainer] this is nothing that a trainer measured: {}", error.what());
}

// By examples. Devices may know different names, one without examples none: what they send is text, a line for each.
Metrics EagerTrainerBase::group_means(const Averages& own) {
  if (options_.sync == nullptr) return means_of(own);
  std::string text;
  for (const auto& [name, average] : own) text += fmt::format("{} {} {}\n", average.weight(), average.mean(), name);
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  const Tensor sent(Array::from(bytes, {static_cast<std::int64_t>(bytes.size())}, options_.device));
  const auto all = options_.sync->all_gather(options_.device, sent).resolve().to_vector<std::uint8_t>();
  Averages averages;
  std::istringstream lines(std::string(all.begin(), all.end()));
  for (std::string line; std::getline(lines, line);) {
    const char* const last = line.data() + line.size();
    double weight = 0;
    double value = 0;
    const char* at = std::from_chars(line.data(), last, weight).ptr;
    at = std::from_chars(at + 1, last, value).ptr;
    averages[std::string(at + 1, last)].add(value, weight);
  }
  return means_of(averages);
}

Metrics EagerTrainerBase::evaluated(Metrics means, const Metrics& weights) {
  if (!options_.evaluate_together) return means;
  Averages own;
  for (const auto& [name, value] : means) own[name].add(value, weights.at(name));
  return group_means(own);
}

double EagerTrainerBase::take_mean_loss() {
  if (options_.metrics_every == 0) raise<Error>("[trainer] losses are not kept with metrics_every 0");
  read_metrics();
  Averages own{{"loss", std::exchange(measured_.loss, {})}};
  return group_means(own).at("loss");
}

// The sum of the losses, and each by itself where there are several.
Metrics EagerTrainerBase::write_metrics() {
  read_metrics();
  Metrics metrics = group_means(std::exchange(measured_.averages, {}));
  unwritten_ = false;
  const auto total = metrics.extract(kTotal);
  if (metrics.empty()) return metrics;
  storage().put_scalar("data_time", data_time(), EventStorage::Smoothing::none);
  if (!total.empty()) storage().put_scalar(options_.prefix + "total_loss", total.mapped());
  if (metrics.size() > 1)
    for (const auto& [name, value] : metrics) storage().put_scalar(options_.prefix + name, value);
  return metrics;
}

Metrics EagerTrainerBase::evaluate_on(const std::function<Losses()>& losses) {
  Metrics metrics;
  for (const auto& [name, value] : forward(losses)) metrics[name] = value.item<double>();
  return metrics;
}

}  // namespace tutti
