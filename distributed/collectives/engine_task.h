// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/cache_line_gap.h>
#include <tutti/distributed/collectives/collective_task.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

namespace tutti {

/// A task with its state, from which engines derive theirs.
class EngineTask : public CollectiveTask {
 public:
  EngineTask() = default;
  ~EngineTask() override {
    if (Next* const next = next_.load(std::memory_order_relaxed); next != &called_) delete next;
  }
  EngineTask(const EngineTask&) = delete;
  EngineTask& operator=(const EngineTask&) = delete;

  /// Default: blocks until the task is finished, by whatever its engine has for that.
  void join(Device) override {
    wait();
    if (error()) std::rethrow_exception(error());
  }
  std::uint32_t progress() const noexcept final { return progress_.load(std::memory_order_acquire); }
  void wait_past(std::uint32_t progress) noexcept override { progress_.wait(progress, std::memory_order_acquire); }
  void then(std::function<void()> next) final {
    auto held = std::make_unique<Next>(std::move(next));
    Next* before = nullptr;
    if (next_.compare_exchange_strong(before, held.get(), std::memory_order_acq_rel))
      static_cast<void>(held.release());  // `finish` calls and deletes it
    else if (before == &called_)
      (*held)();
    else
      CollectiveTask::then({});  // throws: somebody waits already
  }
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
    const std::unique_ptr<Next> next(next_.exchange(&called_, std::memory_order_acq_rel));
    if (next) (*next)();
  }
  void advance(std::uint32_t progress) {
    progress_.store(progress, std::memory_order_release);
    progress_.notify_all();
  }
  void add_busy(std::chrono::nanoseconds time) noexcept { busy_ns_.fetch_add(time.count(), std::memory_order_relaxed); }

 private:
  using Next = std::function<void()>;

  static Next
      called_;  // marks a task that is finished; its address counts, which is one for the library and its plugins

  std::atomic<std::uint32_t> progress_{0};  // polled
  std::exception_ptr error_;
  Clock::time_point finished_at_{};
  std::atomic<Next*> next_{nullptr};  // owned until it is `called_`
  [[maybe_unused]] CacheLineGap gap_;
  std::atomic<std::int64_t> busy_ns_{0};  // last, so that engines may put beside it what is written with it
};

/// A task with nothing to do: what an engine returns for reductions that are switched off.
class FinishedTask final : public EngineTask {
 public:
  FinishedTask() { finish(); }
};

}  // namespace tutti
