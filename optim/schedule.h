// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace tutti {

/// A learning rate as a function of how many steps were made: a value, whose only state is that count, which optimizers
/// keep already. `optimizer.set_learning_rate(schedule(optimizer.steps()))` before each step; with groups, a schedule
/// for each. Where torch.optim.lr_scheduler has the same, the figures are its. All throw Error for what cannot be.
class Schedule {
 public:
  using Rate = std::function<double(std::int64_t step)>;
  explicit Schedule(Rate);  ///< any function

  /// Rate of the step that is about to be made, from 0. Throws Error below 0 and where the schedule ends (one_cycle).
  double operator()(std::int64_t step) const;

  static Schedule constant(double rate);  ///< `rate` at every step
  /// Multiplies the rate by gamma after every `every` steps.
  static Schedule step(double rate, std::int64_t every, double gamma = 0.1);
  /// Multiplies the rate by gamma at each milestone; they ascend, and one that stands twice counts twice.
  static Schedule multi_step(double rate, std::vector<std::int64_t> milestones, double gamma = 0.1);
  /// Straight line from `from` to `to` in `steps` steps, then `to`.
  static Schedule linear(double from, double to, std::int64_t steps);
  static Schedule exponential(double rate, double gamma);  ///< rate gamma^step
  /// rate (1 - step / steps)^power, then 0.
  static Schedule polynomial(double rate, std::int64_t steps, double power = 1.0);
  /// Half a cosine from `rate` down to `lowest` in `steps` steps; after that, up and down again, as torch's does:
  /// follow it with a constant by `sequential` to stay.
  static Schedule cosine(double rate, std::int64_t steps, double lowest = 0.0);
  /// Half a cosine, as `cosine`, which starts again each time it has arrived; every period is `factor` times as long as
  /// the last.
  static Schedule cosine_restarts(double rate, std::int64_t steps, std::int64_t factor = 1, double lowest = 0.0);
  /// Vaswani et al., "Attention Is All You Need" (2017), section 5.3, with t = step + 1:
  /// scale width^-0.5 min(t^-0.5, t warm_up^-1.5)
  static Schedule noam(std::int64_t width, std::int64_t warm_up, double scale = 1.0);

  struct OneCycle {
    std::int64_t steps = 0;         ///< number of steps in all; asking for more throws
    double rising = 0.3;            ///< share of the steps in which the rate rises; in (0, 1)
    bool cosine = true;             ///< rises and falls along a cosine; false: in straight lines
    double div_factor = 25;         ///< starts at highest / div_factor
    double final_div_factor = 1e4;  ///< ends at the starting rate / final_div_factor
    bool three_phase = false;       ///< falls as slowly as it rose, and then to the end
  };
  /// Smith and Topin, "Super-Convergence" (2018), as torch has it.
  static Schedule one_cycle(double highest, const OneCycle&);

  struct Cyclic {
    std::int64_t rising = 2000;  ///< steps of the rise; > 0
    std::int64_t falling = 0;    ///< steps of the fall; 0: as many as of the rise
    double cycle_factor = 1.0;   ///< factor of the height from cycle to cycle; 0.5: torch's "triangular2"
    double step_factor = 1.0;    ///< factor of the height from step to step; gamma of torch's "exp_range"
  };
  /// Rises from `lowest` to `highest` and falls again in straight lines, for good: Smith, "Cyclical Learning Rates for
  /// Training Neural Networks" (2017).
  static Schedule cyclic(double lowest, double highest, const Cyclic&);
  static Schedule cyclic(double lowest, double highest);

  /// Straight line from `start_factor` times what `then` begins with, over `steps` steps; then `then`, from its step 0.
  static Schedule warm_up(std::int64_t steps, Schedule then, double start_factor = 0.0);
  /// Schedules one after the other, each from its step 0; schedule i + 1 begins at milestones[i], which ascend.
  static Schedule sequential(std::vector<Schedule>, std::vector<std::int64_t> milestones);
  /// Product of schedules: all but one are factors, made with a rate of 1.
  static Schedule chained(std::vector<Schedule>);

 private:
  Rate rate_;
};

}  // namespace tutti
