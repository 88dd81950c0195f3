// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/hook.h>

#include <optional>
#include <stop_token>
#include <string>

namespace tutti {

/// Ends training when a stop is requested of the program's token, by any thread, as Trainer::stop does: after the step
/// that runs, with the checkpoints and logs that the end brings. What a step or the data wait for is waited for, as
/// long as the deadlines allow: GradientSync::close, or fail, ends waits for other devices at once, with an error. With
/// several devices, for the main one's trainer, whose stop is agreed with the others, those of other processes too. A
/// request from before training ends it before the first step that no device has begun. One token may end many
/// trainings.
class StopOnRequest final : public Hook {
 public:
  explicit StopOnRequest(std::stop_token token, std::string reason = "the program asked for an end");

  void before_train() override;
  void after_step(const StepReport&) override;
  void after_train() override;  ///< waits for the thread that requests a stop at the time

  bool stopped() const noexcept { return stopped_; }  ///< the last call of train ended by the request

 private:
  struct Ask {
    void operator()() const noexcept { hook->ask(); }
    StopOnRequest* hook;
  };
  void ask() noexcept;

  std::stop_token token_;
  std::string reason_;
  std::optional<std::stop_callback<Ask>> listening_;  // set while training runs
  bool stopped_ = false;
};

}  // namespace tutti
