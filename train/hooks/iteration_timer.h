// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/hook.h>

#include <chrono>
#include <cstdint>

namespace tutti {

/// Puts "time", the seconds from one training step's end to the next one's, data and hooks included, into the trainer's
/// storage. The first `warm_up` steps of a call of train are left out, and so are evaluations. Register it before hooks
/// that read it.
class IterationTimer final : public Hook {
 public:
  explicit IterationTimer(std::int64_t warm_up = 3) : warm_up_(warm_up) {}

  void before_train() override;
  void before_evaluation() override;
  void after_evaluation(const Metrics&) override;
  void after_step(const StepReport&) override;

  std::int64_t timed_steps() const noexcept { return timed_; }
  double seconds() const noexcept { return total_.count(); }  ///< total of the timed steps

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t warm_up_;
  std::int64_t seen_ = 0;
  std::int64_t timed_ = 0;
  std::chrono::duration<double> total_{};
  std::chrono::duration<double> paused_{};  // time of evaluations in the step that runs
  Clock::time_point last_;
  Clock::time_point evaluation_;
};

}  // namespace tutti
