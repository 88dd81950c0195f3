// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/progress_bar.h>

#include <tutti/backend/raise.h>
#include <tutti/train/trainer.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tutti {
namespace {

std::optional<double> latest(const EventStorage& storage, const std::string& name) {
  const auto scalar = storage.latest(name);
  return scalar ? std::optional(scalar->value) : std::nullopt;
}

}  // namespace

ProgressBar::ProgressBar(ProgressBarOptions options) : options_(std::move(options)) {
  if (options_.steps < 0) raise<Error>("[progress bar] an epoch of {} steps: below 0", options_.steps);
  if (options_.evaluation_steps < 0)
    raise<Error>("[progress bar] an evaluation of {} steps: below 0", options_.evaluation_steps);
}

// 0: not known.
std::int64_t ProgressBar::total_steps() const {
  const TrainingLimits& limits = trainer().limits();
  std::int64_t by_epochs = 0;
  const bool known = options_.steps > 0 && limits.epochs < kUnlimited &&
                     !__builtin_mul_overflow(options_.steps, limits.epochs, &by_epochs);
  const std::int64_t total = std::min(limits.steps, known ? by_epochs : kUnlimited);
  return total < kUnlimited ? total : 0;
}

std::string ProgressBar::label() const {
  const TrainingLimits& limits = trainer().limits();
  if (!options_.progress.label.empty()) return options_.progress.label;
  if (limits.epochs < kUnlimited) return fmt::format("epoch {}/{}", trainer().epoch() + 1, limits.epochs);
  return limits.steps < kUnlimited ? "" : fmt::format("epoch {}", trainer().epoch() + 1);
}

void ProgressBar::before_epoch() {
  if (!trainer().writes()) return;
  if (bar_) return bar_->relabel(label());
  ProgressOptions options = options_.progress;
  options.label = label();
  options.first_step = trainer().iteration();
  samples_before_ = trainer().storage().samples();
  bar_.emplace(total_steps(), std::move(options));
  bar_->begin();  // a step may take minutes
}

void ProgressBar::after_step(const StepReport& report) {
  if (!report.training && evaluation_) evaluation_->update({.step = ++evaluated_, .examples = evaluated_});
  if (!report.training || !bar_) return;
  const EventStorage& storage = trainer().storage();
  bar_->update({.step = report.global_step,
                .examples = std::llround(storage.samples() - samples_before_),
                .loss = latest(storage, options_.loss),
                .accuracy = latest(storage, options_.accuracy),
                .validation = latest(storage, options_.validation)});
}

void ProgressBar::before_evaluation() {
  if (!trainer().writes()) return;
  end_evaluation();  // one before it may have thrown
  hide();
  ProgressOptions options = options_.progress;
  options.label = "evaluation";
  options.unit = "steps";
  options.quiet = std::max<std::chrono::milliseconds>(options.quiet, std::chrono::seconds(1));
  evaluated_ = 0;
  evaluation_.emplace(options_.evaluation_steps, std::move(options));
}

void ProgressBar::after_evaluation(const Metrics&) { end_evaluation(); }

void ProgressBar::end_evaluation() {
  if (evaluation_) evaluation_->hide();
  evaluation_.reset();
}

void ProgressBar::hide() {
  if (evaluation_) evaluation_->hide();
  if (bar_) bar_->hide();
}

// An evaluation that was stopped, or threw, has none behind it.
void ProgressBar::after_train() {
  end_evaluation();
  if (bar_) bar_->finish();
  bar_.reset();
}

}  // namespace tutti
