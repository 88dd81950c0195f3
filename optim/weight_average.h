// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

struct WeightAverageOptions {
  double decay = 0.999;  ///< decay rate of the average, in [0, 1)
  /// Update t, counted from 1, has the decay min(decay, (1 + t) / (10 + t)): early averages forget where it started.
  bool warm_up = false;
};

/// The exponential moving average of parameters, average = decay average + (1 - decay) parameter, which often does
/// better in evaluation: Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging" (1992), who weigh
/// all steps alike. It starts as the parameters are; those of bf16 and f16 have averages of f32, rounded when they
/// are applied. Replicas whose parameters are the same have the same average.
class WeightAverage {
 public:
  /// Throws Error for no parameters, or an option outside its range.
  explicit WeightAverage(std::vector<Tensor> parameters, const WeightAverageOptions& = {});

  void update();  ///< updates the averages, after each step; an error while a scope has them applied

  /// Scope in which the parameters have the averages for values; what they had before comes back with its end. Train in
  /// none: a step would change the averages. It may not outlive the WeightAverage.
  class Applied {
   public:
    ~Applied();
    Applied(Applied&&) = delete;

   private:
    friend class WeightAverage;
    explicit Applied(WeightAverage&);
    WeightAverage& average_;
    std::vector<Array> values_;
  };
  /// Applies the averages for a scope; Error if one has already.
  [[nodiscard]] Applied apply() { return Applied(*this); }

  bool applied() const noexcept { return applied_; }  ///< true if a scope has the averages applied

  /// One array for each parameter, by position.
  const std::vector<Array>& averages() const noexcept { return averages_; }
  std::int64_t updates() const noexcept { return updates_; }
  double decay_of(std::int64_t update) const noexcept;  ///< counted from 1

  struct State {
    std::int64_t updates = 0;
    std::vector<Array> averages;
  };
  State state() const;                   ///< shares no storage with this
  void check_state(const State&) const;  ///< throws what `load_state` would, and changes nothing
  void load_state(const State&);  ///< copies, onto each parameter's device; a misfit throws Error and changes nothing

 private:
  std::vector<Tensor> parameters_;
  WeightAverageOptions options_;
  std::vector<Array> averages_;
  std::int64_t updates_ = 0;
  bool applied_ = false;
};

}  // namespace tutti
