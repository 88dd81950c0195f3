// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/command/launch/child_process.h>
#include <tutti/command/launch/launch_policy.h>
#include <tutti/command/launch/output/output_sink.h>
#include <tutti/command/launch/output/rank_log.h>
#include <tutti/command/launch/output/rank_output.h>
#include <tutti/command/launch/rank_processes.h>
#include <tutti/command/launch/signal_mask.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti::launch {

/// A job while it runs: what the system tells goes to the policy, and what that decides is done, by one loop that waits
/// for signals, for output of the processes, for the reader of the launcher's own, and for the policy's deadline.
class RunningJob {
 public:
  struct Rank {
    int rank = 0;
    std::string prefix;
    ChildProcess process{};
    std::unique_ptr<RankLog> log{};  ///< gets its output, too; may be null
  };

  /// `processes` has those of `ranks`, in their order.
  RunningJob(std::vector<Rank> ranks, RankProcesses& processes, LaunchPolicy::Clock::duration grace, SignalMask&);
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;

  /// Returns the launcher's exit status, once all processes are gone and what they wrote has been passed on.
  int run();

 private:
  void step(std::optional<LaunchPolicy::Time> deadline);
  void take_signal(int signal);
  void take_endings();
  void stand_still();
  void flush(OutputSink&, const char* name);
  void tell_news_of_logs();
  void carry_out();
  void say(const std::string& text);
  bool pending() const noexcept { return output_.pending() || error_->pending(); }

  RankProcesses& processes_;
  SignalMask& signals_;
  OutputSink output_;
  OutputSink own_error_;
  OutputSink* error_;  // output_ where both are the same file: lines of two would mix
  std::vector<std::unique_ptr<RankLog>> logs_;
  std::vector<RankOutput> outputs_;  // two of each process: its output, its error
  LaunchPolicy policy_;
  LaunchPolicy::Actions actions_;  // not yet carried out
  bool abandoned_ = false;         // asked to end while only output was left
};

}  // namespace tutti::launch
