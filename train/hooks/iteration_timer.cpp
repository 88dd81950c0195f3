// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/iteration_timer.h>

#include <tutti/train/trainer.h>

#include <utility>

namespace tutti {

void IterationTimer::before_train() {
  last_ = Clock::now();
  seen_ = timed_ = 0;
  total_ = paused_ = {};
}

void IterationTimer::before_evaluation() { evaluation_ = Clock::now(); }

void IterationTimer::after_evaluation(const Metrics&) { paused_ += Clock::now() - evaluation_; }

void IterationTimer::after_step(const StepReport& report) {
  if (!report.training) return;
  const auto now = Clock::now();
  const std::chrono::duration<double> step = now - std::exchange(last_, now) - std::exchange(paused_, {});
  if (++seen_ <= warm_up_) return;
  ++timed_;
  total_ += step;
  trainer().storage().put_scalar("time", step.count());
}

}  // namespace tutti
