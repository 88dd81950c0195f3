// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/hook.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

struct EarlyStoppingOptions {
  std::string metric = "loss";  ///< name among the evaluations' means
  bool smaller_is_better = true;
  std::int64_t patience = 3;  ///< evaluations in a row without an improvement, after which training stops; > 0
  double min_delta = 0;       ///< difference that an improvement exceeds; >= 0
};

/// Stops training when evaluations no longer improve, and further training before its first step: raise the patience to
/// go on. Evaluations that are no part of training count nothing: it never stops drive_distributed_training, which
/// validates between calls of train; EpochSchedule::reduce_on_plateau(factor, patience, 1) does. NaN and infinities are
/// no improvements. With several devices, evaluate on all of them with the same result, or on the one whose stop is
/// agreed with the others.
class EarlyStopping final : public Hook {
 public:
  explicit EarlyStopping(EarlyStoppingOptions);  ///< throws Error for an option outside its range

  void before_train() override;
  void after_evaluation(const Metrics&) override;  ///< Error if the metric is not among the means

  std::optional<double> best() const noexcept { return best_; }
  std::int64_t without_improvement() const noexcept { return bad_; }
  /// Contains the metric's name: checkpoints of the trainer's state keep best() and the count.
  std::string state_name() const override { return "early stopping/" + options_.metric; }
  std::string state() const override;
  void load_state(const std::string&) override;  ///< DataError for another text; nothing is changed then

 private:
  bool improves(double value) const;
  void stop();

  EarlyStoppingOptions options_;
  std::optional<double> best_;
  std::int64_t bad_ = 0;
};

}  // namespace tutti
