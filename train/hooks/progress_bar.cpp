// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/progress_bar.h>

#include <tutti/backend/error.h>
#include <tutti/train/trainer.h>

#include <fmt/format.h>

namespace tutti {
namespace {

std::optional<double> latest(const EventStorage& storage, const std::string& name) {
  const auto scalar = storage.latest(name);
  return scalar ? std::optional(scalar->value) : std::nullopt;
}

}  // namespace

ProgressBar::ProgressBar(ProgressBarOptions options) : options_(std::move(options)) {
  if (options_.steps < 0) raise<Error>("[progress bar] an epoch of {} steps: below 0", options_.steps);
}

bool ProgressBar::by_epoch() const { return options_.steps > 0 || trainer().limits().steps == kUnlimited; }

void ProgressBar::before_epoch() {
  if (bar_) return;
  const TrainingLimits& limits = trainer().limits();
  ProgressOptions options = options_.progress;
  if (by_epoch() && options.label.empty())
    options.label = limits.epochs < kUnlimited ? fmt::format("epoch {}/{}", trainer().epoch() + 1, limits.epochs)
                                               : fmt::format("epoch {}", trainer().epoch() + 1);
  options.first_step = by_epoch() ? trainer().epoch_steps() : trainer().iteration();
  bar_.emplace(by_epoch() ? options_.steps : limits.steps, std::move(options));
}

void ProgressBar::after_step(const StepReport& report) {
  if (!report.training || !bar_) return;
  const EventStorage& storage = trainer().storage();
  bar_->update({.step = by_epoch() ? trainer().epoch_steps() : report.global_step,
                .loss = latest(storage, options_.loss),
                .accuracy = latest(storage, options_.accuracy)});
}

// A bar of the whole run goes on after an epoch.
void ProgressBar::after_epoch() {
  if (bar_) bar_->finish();
  if (by_epoch()) bar_.reset();
}

void ProgressBar::after_train() {
  if (bar_) bar_->finish();
  bar_.reset();
}

}  // namespace tutti
