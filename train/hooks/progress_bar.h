// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/hook.h>
#include <tutti/train/reporting/progress.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

struct ProgressBarOptions {
  /// Of an epoch; 0: the bar is of the whole run, up to TrainingLimits::steps, or if there is no such limit of epochs
  /// of unknown length.
  std::int64_t steps = 0;
  /// Metrics of the trainer's storage that are shown, as they are there.
  std::string loss = "total_loss";
  std::string accuracy = "accuracy";
  ProgressOptions progress = {};
};

/// Shows how far training is, by epoch or as a whole: on a terminal a bar, elsewhere now and then a line. Register it
/// on the main device's trainer.
class ProgressBar final : public Hook {
 public:
  explicit ProgressBar(ProgressBarOptions options = {});

  void before_epoch() override;
  void after_step(const StepReport&) override;
  void before_evaluation() override {
    if (bar_) bar_->finish();  // and goes on behind it
  }
  void after_epoch() override;
  void after_train() override;

 private:
  bool by_epoch() const;

  ProgressBarOptions options_;
  std::optional<Progress> bar_;
};

}  // namespace tutti
