// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/threads/thread_number.h>

#include <atomic>

namespace tutti {

std::uint64_t this_thread_number() noexcept {
  static constinit std::atomic<std::uint64_t> count{0};
  thread_local const std::uint64_t number = ++count;
  return number;
}

}  // namespace tutti
