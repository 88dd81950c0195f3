// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tutti {

struct PlateauOptions {
  enum class Mode : std::uint8_t { min, max };
  enum class Threshold : std::uint8_t { relative, absolute };

  Mode mode = Mode::min;       ///< min: a smaller metric is better; max: a larger one
  double factor = 0.1;         ///< factor of the rate at each fall, in (0, 1)
  std::int64_t patience = 10;  ///< metrics that may be no better before the rate falls
  double threshold = 1e-4;     ///< difference that a better metric exceeds
  Threshold threshold_mode = Threshold::relative;
  std::int64_t cooldown = 0;  ///< metrics after a fall that are not held against the rate
  double lowest = 0.0;
  double epsilon = 1e-8;  ///< a fall by less is left out
};

/// A learning rate that falls when a metric has stopped improving, by torch.optim.lr_scheduler.ReduceLROnPlateau's
/// rule. A metric of NaN is no better. On several devices all have to see the same metric.
class ReduceOnPlateau {
 public:
  /// Throws Error for an option outside its range.
  explicit ReduceOnPlateau(double learning_rate, const PlateauOptions& = {});

  double learning_rate() const noexcept { return state_.learning_rate; }
  double update(double metric);  ///< the next learning rate

  struct State {
    double learning_rate = 0.0;
    double best = 0.0;
    std::int64_t bad = 0;  ///< metrics since the last better one or fall
    std::int64_t cooldown = 0;
  };
  const State& state() const noexcept { return state_; }
  void load_state(const State&);  ///< throws Error for what cannot be
  /// The state as text, exactly: for a checkpoint's notes.
  std::string to_text() const;
  void load_text(const std::string&);

 private:
  bool is_better(double metric) const;

  PlateauOptions options_;
  State state_;
};

}  // namespace tutti
