// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/engine/backward_record.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/nn/captured/captured_call.h>
#include <tutti/train/captured_step.h>

#include <span>
#include <string>
#include <vector>

namespace tutti {

inline constexpr CaptureWords kStepWords{"captured step", "step"};

/// One step to be taken.
struct StepCall {
  std::span<const Tensor> batch;
  Step* step = nullptr;                   ///< null: not synchronised
  double weight = 1.0;                    ///< factor of the loss's gradient
  double scale = 1.0;                     ///< further gradient factor, which parameters of a group do not divide out
  const NamedTensors* members = nullptr;  ///< parameters and buffers of the model
};

/// One capture of a step.
class CapturedRun : public CapturedCall {
 public:
  /// Takes the step, captured. Throws CaptureError where it cannot be replayed.
  CapturedRun(const StepCall&, const CapturedStep::Function&, bool device_graphs);

  std::string misfit(const StepCall&) const;               ///< why this call is another one; empty: it is the same
  std::string outdated(const StepCall&) const;             ///< why no call can be the same any more; empty: it can
  std::string difference(const CapturedRun& other) const;  ///< empty: both did the same
  std::vector<Tensor> replay(const StepCall&);

 private:
  void record(const StepCall&, const CapturedStep::Function&);

  BackwardRecord backward_;
  double scale_;
  bool synchronised_;
};

}  // namespace tutti
