// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace tutti {

class Trainer;

using Metrics = std::map<std::string, double, std::less<>>;

/// Results of a step.
struct StepReport {
  const Metrics& metrics;         ///< values as the step returned them; may be none in steps that do not report
  std::int64_t global_step = 0;   ///< training steps that are done, this one included if it is one
  bool training = true;           ///< false: it is a step of an evaluation
  const Metrics* mean = nullptr;  ///< means of an evaluation's steps so far, by weight
};

/// Functions that a Trainer calls at the points of its loop, on its thread. Hooks are called in the order in which they
/// were registered; one that throws ends the run. What takes time belongs after a step, so that hooks that measure
/// steps can tell. A hook belongs to one trainer, which it may outlive.
class Hook {
 public:
  Hook() = default;
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  virtual ~Hook() = default;

  virtual void before_train() {}
  virtual void end() {}          ///< training came to its end: its steps are done, or it was stopped
  virtual void after_train() {}  ///< always, also after an error; Trainer::completed says which
  virtual void before_evaluation() {}
  virtual void after_evaluation(const Metrics& /*means*/) {}  ///< not if Trainer::stop ended it
  virtual void before_epoch() {}
  virtual void after_epoch() {}

  // --- in training and, where Trainer::evaluating says so, in an evaluation, which is one window
  virtual void before_window() {}
  virtual void after_window() {}  ///< Trainer::window counts it already, if its data are used up
  virtual void before_step() {}
  virtual void after_data() {}  ///< the step's data are there: EagerTrainer::items
  virtual void after_step(const StepReport&) {}
  virtual void out_of_data() {}  ///< the epoch's data are used up

  // --- what a checkpoint keeps of it, in its trainer's state
  virtual std::string state_name() const { return {}; }  ///< tells the trainer's hooks apart; empty: it keeps nothing
  virtual std::string state() const { return {}; }
  virtual void load_state(const std::string&) {}  ///< throws for what does not fit; nothing is changed then

 protected:
  Trainer& trainer() const;  ///< Error if it was never registered, or its trainer is gone

 private:
  friend class Trainer;
  Trainer* trainer_ = nullptr;  // cleared by the trainer's end
};

}  // namespace tutti
