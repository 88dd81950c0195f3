// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tutti {

/// Wakes threads that wait for something to change; costs whoever rings nothing while nobody sleeps. Thread-safe.
class Doorbell {
 public:
  void ring() noexcept {
    rings_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    { const std::lock_guard lock(mutex_); }  // whoever has looked and found nothing sleeps by now
    rung_.notify_all();
  }
  std::uint32_t rings() const noexcept { return rings_.load(std::memory_order_seq_cst); }
  /// Sleeps until it has rung since `seen`, for that long at most.
  void sleep(std::uint32_t seen, std::chrono::nanoseconds most) noexcept {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    {
      std::unique_lock lock(mutex_);
      rung_.wait_for(lock, most, [&] { return rings() != seen; });
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  std::mutex mutex_;  // guards nothing but the sleep
  std::condition_variable rung_;
  std::atomic<std::uint32_t> rings_{0};
  std::atomic<int> sleepers_{0};
};

}  // namespace tutti
