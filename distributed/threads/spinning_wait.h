// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/threads/allowed_cores.h>

#include <chrono>
#include <cstddef>
#include <thread>

namespace tutti {

/// True if the process may use as many cores as that: threads that wait for each other without sleep must have one
/// each.
inline bool has_cores_for(std::size_t threads) { return allowed_cores().count() >= threads; }

/// Waits without sleeping, for some hundred microseconds at most: devices that run in step wait for each other that
/// long in every step, and a wake-up would add tens of microseconds each time. The core is given up meanwhile to
/// whoever wants it. False: `condition` still does not hold, and blocking is cheaper.
template <class Condition> bool spin_until(Condition condition) {
  for (int turn = 0; turn < 500; ++turn) {
    if (condition()) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  return condition();
}

}  // namespace tutti
