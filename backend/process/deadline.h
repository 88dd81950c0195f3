// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace tutti {

/// The longest wait, a century: added to any clock's time it fits in nanoseconds. Stands for "never"
/// (std::chrono::milliseconds::max()).
inline constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 36'500);

/// The duration of the option `name`, at most kLongestWait: every option that is a duration passes through here, so
/// that what is computed with it cannot overflow. Throws E, naming the option, below `least`.
template <class E = Error> std::chrono::milliseconds bounded_wait(std::string_view name, std::chrono::milliseconds wait,
                                                                  std::chrono::milliseconds least = {}) {
  if (wait < least)
    raise_message<E>("[" + std::string(name) + "] " + std::to_string(wait.count()) + " ms: it must be " +
                     std::to_string(least.count()) + " ms or more");
  return std::min(wait, kLongestWait);
}

/// Notices that the whole process stood still (stopped by a signal or a debugger, a paused container, a machine without
/// a free processor): who looks at it periodically was then much later than it asked for. Deadlines do not count such a
/// time, in which nobody could have been in time. For one thread.
class StandstillWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `shortest`: of the deadlines that depend on it; `patience`: of the one that blames somebody.
  StandstillWatch(std::chrono::milliseconds shortest, std::chrono::milliseconds patience,
                  Clock::time_point now = Clock::now())
      : period_(std::clamp<std::chrono::milliseconds>(shortest / 8, std::chrono::milliseconds(1),
                                                      std::chrono::milliseconds(250))),
        tolerated_(std::clamp<std::chrono::milliseconds>(patience / 2, kUsualLateness, std::chrono::seconds(1))),
        last_(now) {}

  /// Time from one look to the next, 1 to 250 ms, so that a deadline is met within an eighth of itself.
  std::chrono::milliseconds period() const noexcept { return period_; }
  /// How long the process stood still since the last look; 0: it ran.
  Clock::duration look(Clock::time_point now) noexcept {
    const Clock::duration late = now - std::exchange(last_, now) - period_;
    return late > tolerated_ ? late : Clock::duration::zero();
  }
  /// Forgets the time since the last look, of which the caller knows the reason.
  void skip_to(Clock::time_point now) noexcept { last_ = now; }

 private:
  /// A thread on a busy machine wakes that much later than it asked for: no standstill, however short the deadline.
  static constexpr std::chrono::milliseconds kUsualLateness{20};

  std::chrono::milliseconds period_;
  std::chrono::milliseconds tolerated_;
  Clock::time_point last_;
};

/// Waits until `condition` holds; false if it does not after `patience` (see bounded_wait), which begins anew after a
/// standstill of the process.
template <class Condition> bool wait_within(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                                            std::chrono::milliseconds patience, Condition condition) {
  using Clock = StandstillWatch::Clock;
  Clock::time_point since = Clock::now();
  StandstillWatch watch(patience, patience, since);
  for (Clock::duration left = patience;
       !changed.wait_for(lock, std::min<Clock::duration>(watch.period(), left), condition);) {
    const Clock::time_point now = Clock::now();
    if (watch.look(now) > Clock::duration::zero()) since = now;
    left = patience - (now - since);
    if (left <= Clock::duration::zero()) return false;
  }
  return true;
}

}  // namespace tutti
