// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/hook.h>

#include <cstdio>

namespace tutti {

/// Ends training at Ctrl-C (SIGINT), and at SIGTERM, by which schedulers ask for an end, as Trainer::stop does, with
/// the checkpoints and logs that its end brings. While training runs, the first is confirmed; the second of either ends
/// the process at once, by the signal, but for SIGTERM behind SIGTERM, which schedulers send in a row: that does
/// nothing. Before and after training the signals do what they did before; a process that ignores one, as one in the
/// background of a script may, goes on ignoring it. With several devices, for the main one's trainer, whose stop is
/// agreed with the others, those of other processes too: each process has such a hook. Several trainings at a time are
/// all ended.
class StopOnInterrupt final : public Hook {
 public:
  /// `output`: file, not owned, that the first signal is confirmed on as it comes. Default: the log sink
  /// (backend/log.h), which is told when the signal is heeded, after the step that runs; without one standard error.
  explicit StopOnInterrupt(std::FILE* output = nullptr);
  ~StopOnInterrupt() override;

  void before_train() override;
  void after_step(const StepReport&) override { look(); }
  void end() override { look(); }
  void after_train() override;

  /// True if one of them came in the last call of train; of several processes, to any, and the same in all. One that
  /// comes when they have agreed on that already is as one after training.
  bool interrupted() const noexcept { return interrupted_; }

 private:
  void look();
  bool end_listening() noexcept;  // true: it was the last that listened

  const int output_;  // descriptor; -1: not given
  bool listening_ = false;
  bool asked_ = false;  // training is to stop, by a signal that came here
  bool interrupted_ = false;
};

}  // namespace tutti
