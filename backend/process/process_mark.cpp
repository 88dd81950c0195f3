// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/process/process_mark.h>

#include <fmt/format.h>

#include <pthread.h>
#include <unistd.h>

namespace tutti {

constinit std::atomic<std::uint32_t> ProcessMark::forks{0};

ProcessMark::ProcessMark() : process_(getpid()) {
  [[maybe_unused]] static const int counted =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  forks_ = forks.load(std::memory_order_relaxed);
}

std::string ProcessMark::elsewhere_text() const {
  return fmt::format(
      "was made in process {} and is used in its child {}, where its threads do not exist: make it after fork",
      process_, getpid());
}

}  // namespace tutti
