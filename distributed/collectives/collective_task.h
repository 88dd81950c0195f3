// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/backend/stream.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tutti {

/// A collective on its way. Shared by the engine, the server and the devices that wait for it; whoever has it can do
/// all that is to be done with it, and need not know which engine launched it, nor whether that is there still.
/// Thread-safe.
class CollectiveTask {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~CollectiveTask() = default;

  // --- what a device's thread does with it

  /// Lends the calling thread, which drives the device, to what can be done of the task now; never blocks. Default:
  /// there is nothing to help with.
  virtual void help(Device) {}
  /// Orders the task before later work on the device's compute stream, and returns when that is safe to rely on: a
  /// task of CPUs helps until it is finished. Rethrows the task's error.
  virtual void join(Device) = 0;
  /// Events behind which the results lie, of a task that is queued on devices' streams; none: they are there when it is
  /// finished.
  virtual std::vector<Event> on_streams() const { return {}; }

  // --- how far it is

  bool finished() const noexcept { return progress() == kFinished; }
  /// Blocks until the task is finished, and does meanwhile what is left of it and nobody else does.
  void wait() noexcept {
    for (std::uint32_t now; (now = progress()) != kFinished;) wait_past(now);
  }
  /// Changes with every stage that ends, for tasks that have several; kFinished at last.
  virtual std::uint32_t progress() const noexcept = 0;
  /// Blocks, working as `wait` does, while that is the progress.
  virtual void wait_past(std::uint32_t progress) noexcept = 0;
  static constexpr std::uint32_t kFinished = ~std::uint32_t{0};
  /// Has the function called once the task is finished: by the thread that finishes it, or at once if it is. Once for
  /// each task. The function must not throw, nor wait. Default: throws SyncError, for tasks that cannot tell.
  virtual void then(std::function<void()>);
  /// The task's own error, not that of whoever helped with it; null unless it failed. Valid once finished.
  virtual const std::exception_ptr& error() const noexcept = 0;
  virtual Clock::time_point finished_at() const noexcept = 0;  ///< valid once finished
  virtual std::chrono::nanoseconds busy() const noexcept = 0;  ///< time spent, over all threads
};

/// The end of a task: of its work on streams once that is queued, else when it is finished.
class TaskEvent final : public EventState {
 public:
  explicit TaskEvent(std::shared_ptr<CollectiveTask> task) : task_(std::move(task)) {}

  bool ready() const override { return task_->finished(); }
  void synchronize() override;
  void wait() noexcept override { task_->wait(); }
  /// Events that an engine's stream waits for in place of this one, now; none: only the host can wait. Rethrows the
  /// error of a task that failed.
  std::vector<Event> on_streams() const;

 private:
  std::shared_ptr<CollectiveTask> task_;
};

/// Joins all of them with one device, whose thread helps with whatever of them is ready before it waits for any.
/// Rethrows the first failed one's error, once all are joined.
void join_tasks(Device, std::span<const std::shared_ptr<CollectiveTask>>);

/// Events behind which the task's results lie, for requests that use them: so an engine made of engines can launch all
/// stages of a collective at once, each behind the one before. A task that failed fails what waits for them.
std::vector<Event> events_of(const std::shared_ptr<CollectiveTask>&);

}  // namespace tutti
