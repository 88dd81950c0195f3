// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/trainer.h>

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/sync_text.h>
#include <tutti/exchange/utf8.h>
#include <tutti/train/checkpoints/part_state.h>
#include <tutti/train/reporting/metrics.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
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
using HookStates = std::vector<std::pair<std::string, std::string>>;

/// The first of a name, which it is then no more.
std::optional<std::string> take_state(HookStates& states, const std::string& name) {
  const auto found = std::ranges::find(states, name, &HookStates::value_type::first);
  if (name.empty() || found == states.end()) return std::nullopt;
  std::string state = std::move(found->second);
  states.erase(found);
  return state;
}

}  // namespace

Trainer& Hook::trainer() const {
  if (trainer_ == nullptr) raise<Error>("[hook] it has no trainer: it was never registered, or its trainer is gone");
  return *trainer_;
}

Trainer::~Trainer() {
  for (const auto& hook : hooks_) hook->trainer_ = nullptr;
}

void Trainer::register_hook(std::shared_ptr<Hook> hook) {
  if (!hook) return;
  if (running_ || evaluating_) raise<Error>("[trainer] hooks are registered before training, not within it");
  if (hook->trainer_ != nullptr) raise<Error>("[trainer] the hook belongs to a trainer already");
  HookStates left = loaded_states_;
  if (const auto state = take_state(left, hook->state_name())) hook->load_state(*state);
  loaded_states_ = std::move(left);
  hook->trainer_ = this;
  hooks_.push_back(std::move(hook));
}

void Trainer::register_hooks(std::vector<std::shared_ptr<Hook>> hooks) {
  for (auto& hook : hooks) register_hook(std::move(hook));
}

template <class... Parameters, class... Arguments>
void Trainer::call(void (Hook::*point)(Parameters...), Arguments&&... arguments) {
  for (const auto& hook : hooks_) (hook.get()->*point)(arguments...);
}

// What it throws must not take an error's place.
void Trainer::log(std::string_view line) const noexcept {
  try {
    if (log_)
      log_(line);
    else
      fmt::print(stderr, "{}\n", line);
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
  const During running(running_);
  limits_ = limits;
  plan_ = plan;
  start_ = place_.iteration;
  completed_ = false;
  stop_reason_.clear();
  const bool planned = plan.every_steps > 0 || plan.every_epochs > 0 || plan.every_windows > 0;
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
    completed_ = true;
  } catch (...) {
    first = std::current_exception();
    failed(first);  // before anything else: others wait
    log(fmt::format("training{} failed at step {} of epoch {}: {}", where(), place_.iteration, place_.epoch,
                    text_of(first)));
  }
  take_stop();  // one that came too late was for this call
  after_train(first);
}

// All of them run, whatever the others do.
void Trainer::after_train(std::exception_ptr first) {
  for (const auto& hook : hooks_) try {
      hook->after_train();
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      log(fmt::format("after training{}, a hook failed: {}", where(), text_of(error)));
      completed_ = false;
      if (!first) first = error;
    }
  if (first) std::rethrow_exception(first);
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
    place_.window = 0;
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
  call(&Hook::after_epoch);
  if (!resumed && place_.iteration == first) raise<DataError>("[trainer] epoch {} has no data", place_.epoch);
  ++place_.epoch;
  place_.window = 0;
  in_epoch_ = false;
  if (plan_.every_epochs > 0 && place_.epoch % plan_.every_epochs == 0) evaluation_due_ = true;
  evaluate_if_due();
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
  evaluation_due_ = evaluates() ? !run_evaluation(plan_.steps, true) : ends_early(false);
  if (!evaluation_due_) evaluation_ended();
}

// All devices ask, or none: where batches are accumulated, training could not stop here.
bool Trainer::ends_early(bool here) {
  if (!between_updates()) return false;
  std::optional<std::string> reason = evaluation_stopped(here);
  if (reason) stop_reason_ = std::move(*reason);
  return reason.has_value();
}

Metrics Trainer::evaluate(std::int64_t steps) { return *run_evaluation(steps, false); }

// Nothing, if it was stopped.
std::optional<Metrics> Trainer::run_evaluation(std::int64_t steps, bool by_plan) {
  if (evaluating_) raise<Error>("[trainer] evaluate was called within an evaluation");
  const During evaluation(evaluating_);
  const double data_time = data_time_;
  set_training(false);
  std::optional<Metrics> means;
  try {
    call(&Hook::before_evaluation);
    means = evaluation_steps(steps, by_plan);
    if (means) {
      for (const auto& [name, value] : *means)
        storage_.put_scalar("evaluation/" + name, value, EventStorage::Smoothing::none);
      call(&Hook::after_evaluation, *means);
    }
  } catch (...) {
    set_training(true);
    throw;
  }
  set_training(true);
  data_time_ = data_time;
  return means;
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

std::string Trainer::state() const {
  HookStates hooks;
  for (const auto& hook : hooks_) {
    if (hook->state_name().empty()) continue;
    hooks.emplace_back(hook->state_name(), hook->state());
    if (!detail::is_utf8(hooks.back().first) || !detail::is_utf8(hooks.back().second))
      raise<Error>("[trainer] the state of hook \"{}\" is no UTF-8 text", hook->state_name());
  }
  hooks.insert(hooks.end(), loaded_states_.begin(), loaded_states_.end());  // of hooks that this run has not
  return nlohmann::json{
      {"iteration", place_.iteration},       {"epoch", place_.epoch},         {"window", place_.window},
      {"window_steps", place_.window_steps}, {"in_epoch", in_epoch_},         {"in_window", in_window_},
      {"evaluation_due", evaluation_due_},   {"storage", storage_.to_text()}, {"hooks", hooks}}
      .dump();
}

// That a state fits is seen by loading it; then what the hook had comes back.
std::function<void()> Trainer::prepare_hooks(HookStates states) {
  std::vector<std::pair<std::shared_ptr<Hook>, std::string>> loads;
  for (const auto& hook : hooks_) {
    auto state = take_state(states, hook->state_name());
    if (!state) continue;
    const std::string now = hook->state();
    hook->load_state(*state);
    hook->load_state(now);
    loads.emplace_back(hook, std::move(*state));
  }
  return [this, loads = std::move(loads), states = std::move(states)] {
    for (const auto& [hook, state] : loads) hook->load_state(state);
    loaded_states_ = states;
  };
}

std::function<void()> Trainer::prepare_load(const std::string& text) try {
  if (running_ || evaluating_) raise<Error>("[trainer] load_state was called within the loop");
  const auto json = nlohmann::json::parse(text);
  const Place place{json.at("iteration"), json.at("epoch"), json.at("window"), json.at("window_steps")};
  if (place.iteration < 0 || place.epoch < 0 || place.window < 0 || place.window_steps < 0)
    raise<DataError>("[trainer] a place of step {}, epoch {}, window {}, step {} of it", place.iteration, place.epoch,
                     place.window, place.window_steps);
  const bool evaluation_due = json.at("evaluation_due");
  const bool in_epoch = json.at("in_epoch");
  const bool in_window = json.at("in_window");
  HookStates hooks;  // texts of earlier versions have none
  if (json.contains("hooks")) hooks = json.at("hooks").get<HookStates>();
  return [=, this, load_storage = storage_.prepare_load(json.at("storage")),
          load_hooks = prepare_hooks(std::move(hooks))] {
    load_storage();
    load_hooks();
    evaluation_due_ = evaluation_due;
    place_ = place;
    in_epoch_ = in_epoch;
    in_window_ = in_window;
  };
} catch (const nlohmann::json::exception& error) {
  raise<DataError>("[trainer] this is no trainer's state: {}", error.what());
}

PartState part_state(const Trainer& trainer) { return {{}, trainer.state()}; }
Install prepare_part(Trainer& trainer, const PartState& state) { return trainer.prepare_load(state.text); }

}  // namespace tutti
