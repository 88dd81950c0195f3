// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/cache_line_gap.h>
#include <tutti/distributed/collectives/collective_task.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

namespace tutti {

/// A task with its state, from which engines derive theirs.
class EngineTask : public CollectiveTask {
 public:
  /// Default: blocks until the task is finished, by whatever its engine has for that.
  void join(Device) override {
    wait();
    if (error()) std::rethrow_exception(error());
  }
  std::uint32_t progress() const noexcept final { return progress_.load(std::memory_order_acquire); }
  void wait_past(std::uint32_t progress) noexcept override { progress_.wait(progress, std::memory_order_acquire); }
  const std::exception_ptr& error() const noexcept final { return error_; }
  Clock::time_point finished_at() const noexcept final { return finished_at_; }
  std::chrono::nanoseconds busy() const noexcept final {
    return std::chrono::nanoseconds(busy_ns_.load(std::memory_order_relaxed));
  }

 protected:
  void finish(std::exception_ptr error = {}) {
    error_ = std::move(error);
    finished_at_ = Clock::now();
    advance(kFinished);
  }
  void advance(std::uint32_t progress) {
    progress_.store(progress, std::memory_order_release);
    progress_.notify_all();
  }
  void add_busy(std::chrono::nanoseconds time) noexcept { busy_ns_.fetch_add(time.count(), std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> progress_{0};  // polled
  std::exception_ptr error_;
  Clock::time_point finished_at_{};
  [[maybe_unused]] CacheLineGap gap_;
  std::atomic<std::int64_t> busy_ns_{0};  // last, so that engines may put beside it what is written with it
};

/// A task with nothing to do: what an engine returns for reductions that are switched off.
class FinishedTask final : public EngineTask {
 public:
  FinishedTask() { finish(); }
};

}  // namespace tutti
