// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/progress.h>
#include <tutti/train/hook.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

struct ProgressBarOptions {
  std::int64_t steps = 0;             ///< steps of an epoch, for runs that TrainingLimits end by epochs; 0: not known
  std::int64_t evaluation_steps = 0;  ///< steps of an evaluation; 0: not known
  /// Metrics of the trainer's storage that are shown, as they are there.
  std::string loss = "total_loss";
  std::string accuracy = "accuracy";
  std::string validation = "evaluation/accuracy";
  ProgressOptions progress = {};
};

/// Shows how far training is: on a terminal a bar, which is drawn over to the end of the run, epoch after epoch;
/// elsewhere now and then a line. Of an evaluation that takes more than a second it shows the steps. Where the trainer
/// does not write (Trainer::writes), nothing. Register it on the main device's trainer, before hooks that print
/// something after an evaluation or an epoch: the bar makes room for them.
class ProgressBar final : public Hook {
 public:
  explicit ProgressBar(ProgressBarOptions options = {});

  void before_epoch() override;
  void after_step(const StepReport&) override;
  void before_evaluation() override;
  void after_evaluation(const Metrics&) override;
  void after_epoch() override { hide(); }
  void after_train() override;

  /// Erases the line that is being drawn over, until the next step: for what prints to the same terminal.
  void hide();

 private:
  std::int64_t total_steps() const;
  std::string label() const;
  void end_evaluation();

  ProgressBarOptions options_;
  std::optional<Progress> bar_;
  std::optional<Progress> evaluation_;
  std::int64_t evaluated_ = 0;  // steps of the evaluation
  double samples_before_ = 0;
};

}  // namespace tutti
