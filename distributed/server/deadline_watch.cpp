// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/deadline_watch.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/deadline.h>
#include <tutti/backend/process/start_thread.h>

#include <utility>

namespace tutti {

DeadlineWatch::DeadlineWatch(std::chrono::milliseconds shortest, std::chrono::milliseconds patience, Duties duties)
    : duties_(std::move(duties)) {
  thread_ = start_thread<SyncError>("sync", [this, shortest, patience] { run(shortest, patience); });
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

void DeadlineWatch::run(std::chrono::milliseconds shortest, std::chrono::milliseconds patience) {
  StandstillWatch watch(shortest, patience);
  Clock::time_point running_since{};
  std::unique_lock lock(mutex_);
  while (!stopping_ || !warnings_.empty()) {
    changed_.wait_for(lock, watch.period(), [this] { return stopping_ || !warnings_.empty(); });
    const Clock::time_point now = Clock::now();
    const Clock::duration stood_still = watch.look(now);
    if (stood_still.count() > 0) running_since = now;
    const std::vector<std::string> warnings = std::exchange(warnings_, {});
    lock.unlock();
    for (const std::string& text : warnings) try {
        duties_.warn(text);
      } catch (...) {
        // nobody fails because of what only warns
      }
    duties_.check({now, running_since, stood_still});
    watch.skip_to(Clock::now());  // callbacks, and what else this thread did for the group, are no standstill
    lock.lock();
  }
}

}  // namespace tutti
