// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

/// A number of the calling thread that no other thread of the process ever has, from 1. (std::thread::id is given again
/// once a thread has ended: the next thread would be taken for it.)
inline std::uint64_t this_thread_number() noexcept {
  static std::atomic<std::uint64_t> count{0};
  thread_local const std::uint64_t number = ++count;
  return number;
}

}  // namespace tutti
