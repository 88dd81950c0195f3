// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/command/launch/process_ending.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tutti::launch {

// --- what the policy decides, in the order in which it is to be done

/// Send this signal to all process groups that are left.
struct SignalAll {
  int signal = 0;
  friend bool operator==(const SignalAll&, const SignalAll&) = default;
};
/// Tell the user, on standard error.
struct Say {
  std::string text;
  friend bool operator==(const Say&, const Say&) = default;
};
using LaunchAction = std::variant<SignalAll, Say>;

/// The rules of a job's end as a pure state machine: no processes, files or clocks. Each event appends what it makes
/// happen. Time never goes back from one event to the next.
///
/// A job runs until all its processes and what is left of their process groups are gone. A failed process gives the
/// others the grace time to end by themselves, with errors of their own that may name the culprit; then follow SIGTERM
/// and, another grace time later, SIGKILL. A first request to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT) is only passed on;
/// a second one brings SIGTERM at once, a third SIGKILL.
class LaunchPolicy {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using Actions = std::vector<LaunchAction>;
  struct Process {
    int rank = 0;
    int pid = 0;
  };

  LaunchPolicy(const std::vector<Process>& processes, Clock::duration grace);

  // --- events; `process` is a place in the constructor's list
  void ended(std::size_t process, Ending, Time, Actions&);
  void stopped(std::size_t process, int signal);  ///< takes the signal; 0: it goes on
  void group_gone(std::size_t process);           ///< the process has ended, and all others of its group
  void requested(int signal, Time, Actions&);
  /// Output of the processes cannot be passed on: the job ends, with that status unless it had failed before.
  void output_failed(const std::string& why, int status, Time, Actions&);
  void stood_still(Clock::duration);  ///< the whole job was stopped and goes on: deadlines do not count that time
  void look(Time, Actions&);          ///< acts on deadlines; called at `deadline()`, and whenever else

  // --- questions
  std::optional<Time> deadline() const noexcept { return deadline_; }
  bool finished() const noexcept { return left_ == 0 || stage_ == Stage::given_up; }
  int status() const;                          ///< exit status of the launcher, once finished
  std::optional<std::string> closing() const;  ///< tells what led to the end; none if all went well

 private:
  enum class Stage : std::uint8_t { running, waiting, terminated, killed, given_up };
  enum class Cause : std::uint8_t { none, failure, request, output };
  struct Member {
    Process process;
    std::optional<Ending> ending;
    bool group_gone = false;
    int stopped_by = 0;  // signal; 0: it is not
  };

  void advance(Stage, Time, Actions&);
  void say_late(const char* what, Actions&) const;
  bool is_asked_for(const Ending&) const noexcept;
  std::string stopped_text() const;
  std::string members_text(const std::vector<std::size_t>&) const;
  std::vector<std::size_t> still_running() const;

  std::vector<Member> members_;
  Clock::duration grace_;
  Stage stage_ = Stage::running;
  std::optional<Time> deadline_;     // end of the stage
  std::size_t running_;              // processes that have not ended
  std::size_t left_;                 // process groups that are not gone
  std::vector<std::size_t> failed_;  // those that ended other than with status 0, in order
  std::string stopped_before_;       // tells who was stopped when the first failed; empty: nobody
  Cause cause_ = Cause::none;        // why the job ends: what came first; a failure is that of the first of failed_
  std::optional<int> request_;       // first signal that asked for the end
  std::optional<int> output_status_;
};

}  // namespace tutti::launch
