// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/learning_rate.h>

#include <tutti/backend/raise.h>
#include <tutti/optim/optimizer.h>
#include <tutti/train/trainer.h>

#include <cmath>
#include <string>
#include <utility>

namespace tutti {

LearningRateSchedule::LearningRateSchedule(Optimizer& optimizer, Schedule schedule, LearningRateOptions options)
    : optimizer_(optimizer), schedule_(std::move(schedule)), options_(options) {
  optimizer.learning_rate(options.group.value_or(0));  // whether there is such a group
  if (options.steps_per_update < 1)
    raise<Error>("[learning rate] {} steps of the schedule to an update: at least 1", options.steps_per_update);
}

void LearningRateSchedule::before_step() {
  if (trainer().evaluating()) return;
  const double rate = schedule_(optimizer_.steps() * options_.steps_per_update);
  if (options_.group)
    optimizer_.set_learning_rate(*options_.group, rate);
  else
    optimizer_.set_learning_rate(rate);
  trainer().storage().put_scalar(name(), rate, EventStorage::Smoothing::none);
  rate_ = rate;
}

void LearningRateSchedule::after_step(const StepReport& report) {
  if (!report.training) return;
  const EventStorage& storage = trainer().storage();
  const auto found = storage.latest(name());
  if (!found || found->iteration != storage.iteration() || found->value == rate_ || std::isnan(rate_)) return;
  raise<Error>("[learning rate] \"{}\" is the schedule's rate in the trainer's storage, and was put there as {} too",
               name(), found->value);
}

std::string LearningRateSchedule::name() const { return options_.group ? fmt::format("lr/{}", *options_.group) : "lr"; }

}  // namespace tutti
