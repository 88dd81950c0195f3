// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/trainer.h>

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/log.h>
#include <tutti/backend/process/error_text.h>
#include <tutti/backend/raise.h>
#include <tutti/nn/module_tree.h>
#include <tutti/train/reporting/metrics.h>

#include <chrono>
#include <typeinfo>
#include <utility>

namespace tutti {
namespace {

/// A flag that is set while one lives.
class During {
 public:
  explicit During(bool& flag) : flag_(flag), before_(std::exchange(flag, true)) {}
  ~During() { flag_ = before_; }
  During(const During&) = delete;
  During& operator=(const During&) = delete;

 private:
  bool& flag_;
  bool before_;
};

/// Means of what several steps returned. A metric that some of them lack counts where it is.
class MeanMetrics {
 public:
  void add(const Metrics& metrics, double weight) {
    for (const auto& [name, value] : metrics) averages_[name].add(value, weight);
    for (const auto& [name, average] : averages_)
      if (average.weight() > 0) means_[name] = average.mean();
  }
  const Metrics& means() const { return means_; }
  Metrics weights() const {
    Metrics weights;
    for (const auto& [name, mean] : means_) weights[name] = averages_.find(name)->second.weight();
    return weights;
  }

 private:
  std::map<std::string, RunningAverage, std::less<>> averages_;
  Metrics means_;
};

using Count = std::pair<const char*, std::int64_t>;

}  // namespace

Trainer& Hook::trainer() const {
  if (trainer_ == nullptr) raise<Error>("[hook] it has no trainer: it was never registered, or its trainer is gone");
  return *trainer_;
}

Trainer::~Trainer() {
  for (const auto& hook : hooks_) hook->trainer_ = nullptr;
}

template <class... Parameters, class... Arguments>
void Trainer::call(void (Hook::*point)(Parameters...), Arguments&&... arguments) {
  for (std::size_t i = 0; i < hooks_.size(); ++i) try {
      (hooks_[i].get()->*point)(arguments...);
    } catch (...) {
      // Where a hook evaluates, it may be another's error.
      if (const auto error = std::current_exception(); hook_failure_.error != error)
        hook_failure_ = {error, name_of(i)};
      throw;
    }
}

std::string Trainer::name_of(std::size_t hook) const {
  const Hook& object = *hooks_[hook];
  return fmt::format("hook {} ({})", hook + 1, class_name(typeid(object)));
}

// What it throws must not take an error's place.
void Trainer::log(std::string_view line) const noexcept {
  try {
    if (log_)
      log_(line);
    else
      log_message(LogLevel::error, line);
  } catch (...) {
  }
}

void Trainer::train(const TrainingLimits& limits) { run(limits, {}); }

void Trainer::train_and_evaluate(const TrainingLimits& limits, const EvaluationPlan& plan) { run(limits, plan); }

void Trainer::run(const TrainingLimits& limits, const EvaluationPlan& plan) {
  if (running_ || evaluating_) raise<Error>("[trainer] train was called within its own loop");
  for (const auto& [name, count] :
       {Count("steps", limits.steps), Count("epochs", limits.epochs),
        Count("steps_per_window", limits.steps_per_window), Count("windows_per_epoch", limits.windows_per_epoch),
        Count("every_steps", plan.every_steps), Count("every_epochs", plan.every_epochs),
        Count("every_windows", plan.every_windows), Count("steps of an evaluation", plan.steps)})
    if (count < 0) raise<Error>("[trainer] {} is {}: below 0", name, count);
  for (const auto& [name, count] :
       {Count("steps_per_window", limits.steps_per_window), Count("windows_per_epoch", limits.windows_per_epoch)})
    if (count == 0) raise<Error>("[trainer] {} is 0: no epoch would have data", name);
  const bool planned = plan.every_steps > 0 || plan.every_epochs > 0 || plan.every_windows > 0;
  if (planned && plan.steps == 0) raise<Error>("[trainer] steps of an evaluation is 0: it would evaluate nothing");
  const During running(running_);
  limits_ = limits;
  plan_ = plan;
  start_ = place_.iteration;
  completed_ = false;
  stop_reason_.clear();
  if (!planned) evaluation_due_ = false;
  std::exception_ptr first;
  try {
    set_training(true);
    call(&Hook::before_train);
    if (planned && evaluates() && !has_evaluation_data()) Trainer::start_evaluation();  // not after an epoch's work
    begin_training();
    evaluate_if_due();
    run_epochs();
    finish_training();
    call(&Hook::end);
    training_ended();
    completed_ = true;
  } catch (...) {
    first = std::current_exception();
    failed(first);  // before anything else: others wait
    const std::string in = hook_failure_.error == first ? fmt::format(", in {}", hook_failure_.hook) : "";
    if (logs(first))
      log(fmt::format("training{} failed at step {} of epoch {}{}: {}", where(), place_.iteration, place_.epoch, in,
                      text_of(first)));
  }
  hook_failure_ = {};
  take_stop();  // one that came too late was for this call
  after_train(first);
}

// All of them run, whatever the others do.
void Trainer::after_train(std::exception_ptr first) {
  const bool ended = completed_;
  for (std::size_t i = 0; i < hooks_.size(); ++i) try {
      hooks_[i]->after_train();
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      log(fmt::format("after training{}, {} failed: {}", where(), name_of(i), text_of(error)));
      completed_ = false;
      if (!first) first = error;
    }
  if (ended) first = after_training(first);
  if (!first) return;
  completed_ = false;
  std::rethrow_exception(first);
}

std::optional<std::string> Trainer::take_stop() {
  const std::lock_guard lock(stop_mutex_);
  return std::exchange(stop_request_, std::nullopt);
}

bool Trainer::stop_is_requested() {
  const std::lock_guard lock(stop_mutex_);
  return stop_request_.has_value();
}

std::optional<std::string> Trainer::evaluation_stopped(bool here) { return here ? take_stop() : std::nullopt; }

void Trainer::stop(std::string reason) {
  if (reason.empty()) reason = "stop was called";
  const std::lock_guard lock(stop_mutex_);
  if (!stop_request_) stop_request_ = std::move(reason);
}

bool Trainer::done() {
  if (!stop_reason_.empty() || place_.iteration >= limits_.steps || place_.epoch >= limits_.epochs) return true;
  if (between_updates()) stop_reason_ = take_stop().value_or("");
  return !stop_reason_.empty();
}

void Trainer::run_epochs() {
  while (!done()) run_epoch();
}

void Trainer::run_epoch() {
  const bool resumed = in_epoch_;
  if (!resumed) {
    place_.window = place_.epoch_steps = 0;
    start_epoch(place_.epoch);
    in_epoch_ = true;
  }
  call(&Hook::before_epoch);
  const std::int64_t first = place_.iteration;
  bool ended = false;
  while (!ended && !done()) {
    if (in_window_) {
      run_window();
      continue;
    }
    const bool more = place_.window < limits_.windows_per_epoch;
    const NextWindow next = more ? next_window() : NextWindow::end;
    if (next == NextWindow::ready) run_window();
    ended = next == NextWindow::end;
  }
  out_of_data_ = ended;
  if (!ended) return call(&Hook::after_epoch);  // stopped, or at the last step
  call(&Hook::out_of_data);
  {
    const During ending(epoch_ends_);
    call(&Hook::after_epoch);
  }
  if (!resumed && place_.iteration == first) raise<DataError>("[trainer] epoch {} has no data", place_.epoch);
  evaluation_due_ = evaluation_due_after_epoch();
  ++place_.epoch;
  place_.window = place_.epoch_steps = 0;
  in_epoch_ = false;
  evaluate_if_due();
}

bool Trainer::evaluation_due_after_epoch() const {
  return evaluation_due_ || (plan_.every_epochs > 0 && (place_.epoch + 1) % plan_.every_epochs == 0);
}

bool Trainer::fetch(bool (Trainer::*next)()) {
  const auto start = std::chrono::steady_clock::now();
  const bool found = (this->*next)();
  data_time_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return found;
}

void Trainer::run_window() {
  if (!std::exchange(in_window_, true)) place_.window_steps = 0;
  call(&Hook::before_window);
  while (!done()) {
    if (auto reason = stops_before_step()) {
      stop_reason_ = std::move(*reason);
      break;
    }
    if (place_.window_steps >= limits_.steps_per_window || !fetch(&Trainer::next_data)) return end_window();
    storage_.set_iteration(place_.iteration);
    call(&Hook::before_step);
    call(&Hook::after_data);
    const Metrics metrics = run_step();
    ++place_.iteration;
    ++place_.window_steps;
    ++place_.epoch_steps;
    if (plan_.every_steps > 0 && place_.iteration % plan_.every_steps == 0) evaluation_due_ = true;
    call(&Hook::after_step, StepReport{.metrics = metrics, .global_step = place_.iteration});
    if (between_updates()) evaluate_if_due();
  }
  finish_updates();
  out_of_data_ = false;
  call(&Hook::after_window);
  evaluate_if_due();
}

void Trainer::end_window() {
  finish_updates();
  ++place_.window;
  in_window_ = false;
  out_of_data_ = true;
  if (plan_.every_windows > 0 && place_.window % plan_.every_windows == 0) evaluation_due_ = true;
  call(&Hook::after_window);
  evaluate_if_due();
}

// One that was stopped stays due. Where training ends by what hooks make of it, all devices hear that first.
void Trainer::evaluate_if_due() {
  if (!stop_reason_.empty() || !std::exchange(evaluation_due_, false)) return;
  std::optional<Metrics> means;
  if (evaluates()) means = run_evaluation(plan_.steps, true);
  evaluation_due_ = evaluates() ? !means : ends_early(false);
  if (!evaluation_due_) evaluation_ended(means);
}

// All devices ask, or none: where batches are accumulated, training could not stop here.
bool Trainer::ends_early(bool here) {
  if (!between_updates()) return false;
  std::optional<std::string> reason = evaluation_stopped(here);
  if (reason) stop_reason_ = std::move(*reason);
  return reason.has_value();
}

Metrics Trainer::evaluate(std::int64_t steps) {
  if (steps < 0) raise<Error>("[trainer] an evaluation of {} steps", steps);
  return *run_evaluation(steps, false);
}

template <class Work> void Trainer::in_evaluation(Work work) {
  if (evaluating_) raise<Error>("[trainer] evaluate was called within an evaluation");
  const During evaluation(evaluating_);
  const double data_time = data_time_;
  set_training(false);
  try {
    call(&Hook::before_evaluation);
    work();
  } catch (...) {
    set_training(true);
    throw;
  }
  set_training(true);
  data_time_ = data_time;
}

void Trainer::report_evaluation(const Metrics& means) {
  for (const auto& [name, value] : means)
    storage_.put_scalar("evaluation/" + name, value, EventStorage::Smoothing::none);
  call(&Hook::after_evaluation, means);
}

// Nothing, if it was stopped.
std::optional<Metrics> Trainer::run_evaluation(std::int64_t steps, bool by_plan) {
  std::optional<Metrics> means;
  in_evaluation([&] {
    means = evaluation_steps(steps, by_plan);
    if (means) report_evaluation(*means);
  });
  return means;
}

void Trainer::take_evaluation(const Metrics& means) {
  in_evaluation([&] { report_evaluation(means); });
}

std::optional<Metrics> Trainer::evaluation_steps(std::int64_t steps, bool by_plan) {
  const Inference inference;
  MeanMetrics mean;
  start_evaluation();
  call(&Hook::before_window);
  bool more = true;
  bool stopped = false;
  for (std::int64_t step = 0; step < steps; ++step) {
    stopped = by_plan && between_updates() && stop_is_requested();
    if (stopped) break;
    more = fetch(&Trainer::next_evaluation_data);
    if (!more) break;
    if (data_weight() == 0) continue;
    call(&Hook::before_step);
    call(&Hook::after_data);
    const Metrics metrics = run_evaluation_step();
    mean.add(metrics, data_weight());
    call(&Hook::after_step, StepReport{metrics, place_.iteration, false, &mean.means()});
  }
  call(&Hook::after_window);
  if (!more) call(&Hook::out_of_data);
  if (by_plan && ends_early(stopped)) return std::nullopt;
  return evaluated(mean.means(), mean.weights());
}

NextWindow Trainer::next_window() { return place_.window == 0 ? NextWindow::ready : NextWindow::end; }

void Trainer::start_evaluation() { raise<Error>("[trainer] there are no evaluation data"); }
bool Trainer::next_evaluation_data() { return false; }
Metrics Trainer::run_evaluation_step() { return {}; }

}  // namespace tutti
