// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/deadline.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tutti {

/// A group's one thread of its own: looks at the deadlines at intervals, without ever waking a device, and tells
/// warnings, where no message is being processed, so that whoever is told may take its time and fail the group.
class DeadlineWatch {
 public:
  using Clock = std::chrono::steady_clock;
  /// State of the process each time that the thread looks at the clock.
  struct Look {
    Clock::time_point now;
    Clock::time_point running_since;  ///< the process has not stood still since
    Clock::duration stood_still;      ///< how long the process did, since the look before
  };
  struct Duties {
    std::function<void(const std::string&)> warn;  ///< exceptions are ignored
    std::function<void(const Look&)> check;
  };

  /// Starts the thread. `shortest`: of the deadlines that it looks at; `patience`: of the one that blames somebody.
  /// Throws SyncError if the system has no thread.
  DeadlineWatch(std::chrono::milliseconds shortest, std::chrono::milliseconds patience, Duties);
  ~DeadlineWatch() { stop(); }
  DeadlineWatch(const DeadlineWatch&) = delete;
  DeadlineWatch& operator=(const DeadlineWatch&) = delete;

  /// How long the process stood still, where that ended less than `within` ago, or is not noticed yet; else 0. On any
  /// thread.
  Clock::duration stood_still(Clock::duration within) const;

  void tell(std::string warning);  ///< has it passed to Duties::warn; on any thread
  /// Tells the warnings that are left, and joins the thread; on another thread than that one. Idempotent.
  void stop();

 private:
  void run();

  const Duties duties_;
  mutable std::mutex mutex_;  // guards what follows, some of which the thread waits for
  std::condition_variable changed_;
  std::vector<std::string> warnings_;
  bool stopping_ = false;
  StandstillWatch standstill_;
  bool looking_ = true;  // false while the thread calls its duties, and after its end
  Clock::time_point running_since_{};
  Clock::duration last_standstill_{};
  std::thread thread_;
};

}  // namespace tutti
