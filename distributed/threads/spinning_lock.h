// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

namespace tutti {

/// Locks a mutex that is held for some hundred nanoseconds at most, by device threads that come at the same moment
/// because they run in step: waking a blocked thread (tens of microseconds) would cost more than most of what is
/// reduced. Blocks after about that time, should the holder have lost its core.
inline std::unique_lock<std::mutex> lock_spinning(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::defer_lock);
  for (int turn = 0; turn < 500; ++turn) {
    if (lock.try_lock()) return lock;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  lock.lock();
  return lock;
}

}  // namespace tutti
