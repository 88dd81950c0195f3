// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// State of a loop over epochs. Epochs are counted from 0.
struct LoopState {
  struct Validation {
    double loss = 0;
    double smoothed = 0;
  };
  struct Epoch {
    std::int64_t epoch = 0;
    double training_loss = 0;
    std::optional<Validation> validation;  ///< losses, if the epoch was validated
  };

  std::int64_t epoch = 0;                      ///< epochs done
  std::optional<double> last_validation_loss;  ///< smoothed; kept through epochs without validation
  std::optional<double> min_validation_loss;   ///< the least smoothed one among the eligible epochs
  std::optional<std::int64_t> min_validation_epoch;
  std::vector<Epoch> learning_curve;
  bool stopped_by_schedule = false;

  std::string to_text() const;                     ///< exactly: for checkpoints
  static LoopState from_text(const std::string&);  ///< DataError for another text
};

/// A learning-rate schedule with a state of its own, asked before each epoch. A factor of 0 or less stops training.
class EpochSchedule {
 public:
  EpochSchedule() = default;
  EpochSchedule(const EpochSchedule&) = delete;
  EpochSchedule& operator=(const EpochSchedule&) = delete;
  virtual ~EpochSchedule() = default;

  /// Factor of the optimizer's initial learning rates. `validation_loss`: of the epoch before, smoothed; none if that
  /// was not validated.
  virtual double factor(std::int64_t epoch, std::optional<double> validation_loss) = 0;
  virtual std::string state() const { return {}; }
  virtual void load_state(const std::string&) {}

  static std::unique_ptr<EpochSchedule> constant();
  /// Multiplies the rates by `factor` after every `every` epochs.
  static std::unique_ptr<EpochSchedule> decay(double factor, std::int64_t every);
  /// Multiplies the rates by `factor` after `patience` validations in a row without a new least loss; below
  /// `least_factor` it stops: with 1 at the first time.
  static std::unique_ptr<EpochSchedule> reduce_on_plateau(double factor, std::int64_t patience,
                                                          double least_factor = 0);
};

struct EpochsOptions {
  std::int64_t max_epochs = 1;
  std::int64_t validation_frequency = 1;  ///< validates after epochs 0, k, 2 k, ... and after the last; 0: never
  double smoothing = 1;                   ///< s = f loss + (1 - f) s before; in (0, 1]
  /// Tells whether an epoch's model may be the best one. Without it none is kept, and training ends with the last.
  std::function<bool(std::int64_t epoch)> eligible = {};
};

/// Functions that the loop calls.
struct EpochsParts {
  std::function<double(double factor)> train_epoch;  ///< returns the training loss
  /// Asked after each: whether training was stopped in it. Then the loop ends, and the epoch does not count.
  std::function<bool()> stopped = {};
  std::function<double()> validate = {};                  ///< returns the validation loss; without it there is none
  std::function<void()> keep_best = {};                   ///< the model as it is now is the best so far
  std::function<void(const LoopState&)> checkpoint = {};  ///< called after each epoch
};

/// Epochs until the maximum or until the schedule stops. Goes on from `state`. Throws Error for options that cannot be.
/// After lamp's `epochs`.
LoopState epochs(const EpochsOptions&, const EpochsParts&, EpochSchedule&, LoopState state = {});

}  // namespace tutti
