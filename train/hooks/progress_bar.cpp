// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/progress_bar.h>

#include <tutti/train/trainer.h>

#include <fmt/format.h>

namespace tutti {
namespace {

std::optional<double> latest(const EventStorage& storage, const std::string& name) {
  const auto scalar = storage.latest(name);
  return scalar ? std::optional(scalar->value) : std::nullopt;
}

}  // namespace

void ProgressBar::before_epoch() {
  step_ = 0;
  const TrainingLimits& limits = trainer().limits();
  ProgressOptions options = options_.progress;
  if (options_.steps > 0 && options.label.empty())
    options.label = limits.epochs < kUnlimited ? fmt::format("epoch {}/{}", trainer().epoch() + 1, limits.epochs)
                                               : fmt::format("epoch {}", trainer().epoch() + 1);
  const std::int64_t total = options_.steps > 0 ? options_.steps : limits.steps;
  if (!bar_ && total < kUnlimited) bar_.emplace(total, std::move(options));
}

void ProgressBar::after_step(const StepReport& report) {
  if (!report.training || !bar_) return;
  const EventStorage& storage = trainer().storage();
  bar_->update({.step = options_.steps > 0 ? ++step_ : report.global_step,
                .loss = latest(storage, options_.loss),
                .accuracy = latest(storage, options_.accuracy)});
}

// A bar of the whole run goes on after an epoch.
void ProgressBar::finish() {
  if (bar_) bar_->finish();
  if (options_.steps > 0 || !trainer().running()) bar_.reset();
}

}  // namespace tutti
