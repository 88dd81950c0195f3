// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace tutti {

/// Sleeps while the word, in memory that processes share, has that value, at most that long; may wake for nothing.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, std::chrono::nanoseconds most) {
  const timespec time{static_cast<time_t>(most.count() / 1'000'000'000),
                      static_cast<long>(most.count() % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);  // the private flag is for one process
}

/// Wakes all who sleep on the word.
inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tutti
