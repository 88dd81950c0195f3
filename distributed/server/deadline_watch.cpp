// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/deadline_watch.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/start_thread.h>

#include <utility>

namespace tutti {

DeadlineWatch::DeadlineWatch(std::chrono::milliseconds shortest, std::chrono::milliseconds patience, Duties duties)
    : duties_(std::move(duties)), standstill_(shortest, patience) {
  thread_ = start_thread<SyncError>("sync", [this] { run(); });
}

DeadlineWatch::Clock::duration DeadlineWatch::stood_still(Clock::duration within) const {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  const Clock::duration unnoticed = looking_ ? StandstillWatch(standstill_).look(now) : Clock::duration::zero();
  if (unnoticed.count() > 0) return unnoticed;
  return now - running_since_ < within ? last_standstill_ : Clock::duration::zero();
}

void DeadlineWatch::tell(std::string warning) {
  {
    const std::lock_guard lock(mutex_);
    warnings_.push_back(std::move(warning));
  }
  changed_.notify_one();
}

void DeadlineWatch::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void DeadlineWatch::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_ || !warnings_.empty()) {
    changed_.wait_for(lock, standstill_.period(), [this] { return stopping_ || !warnings_.empty(); });
    const Clock::time_point now = Clock::now();
    const Clock::duration stood_still = standstill_.look(now);
    if (stood_still.count() > 0) {
      running_since_ = now;
      last_standstill_ = stood_still;
    }
    const Look look{now, running_since_, stood_still};
    const std::vector<std::string> warnings = std::exchange(warnings_, {});
    looking_ = false;
    lock.unlock();
    for (const std::string& text : warnings) try {
        duties_.warn(text);
      } catch (...) {
        // nobody fails because of what only warns
      }
    duties_.check(look);
    lock.lock();
    standstill_.skip_to(Clock::now());  // callbacks, and what else this thread did for the group, are no standstill
    looking_ = true;
  }
  looking_ = false;
}

}  // namespace tutti
