// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/schedule.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Object with groups of parameters that have a learning rate each: an Optimizer, a ShardedOptimizer.
template <class O>
concept HasLearningRates = requires(O& optimizer, std::size_t group) {
  { optimizer.group_count() } -> std::convertible_to<std::size_t>;
  { optimizer.learning_rate(group) } -> std::convertible_to<double>;
  optimizer.set_learning_rate(group, 0.1);
};

/// Sets the learning rates of all groups of an optimizer by one schedule, as torch.optim.lr_scheduler: each group's is
/// the rate that it had when the scheduler was made, times the schedule's value, which is a factor:
///
///   AdamW optimizer({{backbone, 1e-4}, {head, 1e-3}});
///   Scheduler scheduler(optimizer, Schedule::warm_up(1000, Schedule::cosine(1, 49'000)));
///   for (...) {
///     ...
///     optimizer.step();
///     scheduler.step();  // or once an epoch: then a step of the schedule is an epoch
///   }
///
/// Counts its steps itself. The optimizer is not owned, and outlives it. Checkpoints keep it beside the optimizer; it
/// is made before a state is loaded, while the rates are those to begin with.
class Scheduler {
 public:
  /// Sets the rates of step 0. Error for a factor that is negative or not finite.
  template <HasLearningRates O> Scheduler(O& optimizer, Schedule factor)
      : Scheduler(
            rates_of(optimizer),
            [&optimizer](std::size_t group, double rate) { optimizer.set_learning_rate(group, rate); },
            std::move(factor)) {}

  void step() { set_step(steps_ + 1); }
  /// Sets the rates of any step: of `optimizer.steps()` before each one, where steps are not always updates. Throws
  /// what the schedule does at its end, and changes nothing then.
  void set_step(std::int64_t step);

  std::int64_t steps() const noexcept { return steps_; }
  const std::vector<double>& base_rates() const noexcept { return base_rates_; }  ///< starting rate of each group

  /// The state, which is the base rates and the count of steps, as text, exactly. Loading sets the optimizer's rates;
  /// Error for what cannot be, and nothing is changed.
  std::string to_text() const;
  void load_text(const std::string& text) { prepare_load(text)(); }
  /// `load_text` in two parts, for checkpoints: checks the state and returns what loads it.
  std::function<void()> prepare_load(const std::string&);

 private:
  using SetRate = std::function<void(std::size_t group, double rate)>;

  Scheduler(std::vector<double> base_rates, SetRate, Schedule factor);
  template <class O> static std::vector<double> rates_of(const O& optimizer) {
    std::vector<double> rates;
    for (std::size_t group = 0; group < optimizer.group_count(); ++group)
      rates.push_back(optimizer.learning_rate(group));
    return rates;
  }
  std::vector<double> rates_at(const std::vector<double>& base_rates, std::int64_t step) const;
  void set(const std::vector<double>& rates);

  std::vector<double> base_rates_;  // starting rate of each group
  SetRate set_rate_;
  Schedule factor_;
  std::int64_t steps_ = 0;
};

}  // namespace tutti
