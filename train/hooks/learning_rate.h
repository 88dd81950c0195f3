// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/optim/schedule.h>
#include <tutti/train/hook.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

class Optimizer;

struct LearningRateOptions {
  std::optional<std::size_t> group = std::nullopt;  ///< group of the optimizer; default: all
  std::int64_t steps_per_update = 1;                ///< steps of the schedule for each update; > 0
};

/// Sets an optimizer's learning rate before each training step, from how many steps it has made, and puts "lr" into the
/// trainer's storage. The optimizer keeps that count in its state, so that the schedule has none of its own: it goes on
/// by itself after a restart. The optimizer is not owned.
class LearningRateSchedule final : public Hook {
 public:
  LearningRateSchedule(Optimizer&, Schedule, LearningRateOptions = {});  ///< Error for options that cannot be

  void before_step() override;
  void after_step(const StepReport&) override;  ///< Error if another value has the rate's place in the storage

 private:
  std::string name() const;

  Optimizer& optimizer_;
  Schedule schedule_;
  LearningRateOptions options_;
  double rate_ = 0;
};

}  // namespace tutti
