// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

namespace tutti {

/// Hints to the processor that this thread spins.
inline void pause_spinning() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Polls `condition` for some 30 us, about what waking a blocked thread costs; true as soon as it holds. Offers the
/// core to other threads meanwhile, since there may be more threads than cores.
template <class Condition> bool spin_until(const Condition& condition) {
  constexpr int kPauses = 32;
  constexpr auto kLimit = std::chrono::microseconds(30);
  if (condition()) return true;
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < kPauses; ++i) {
      pause_spinning();
      if (condition()) return true;
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() - start < kLimit);
  return condition();
}

}  // namespace tutti
