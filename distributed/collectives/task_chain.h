// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/collective_task.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace tutti {

/// Tasks that an engine made of engines has launched together, each behind those before it that it needs: finished when
/// all are. Whoever waits for it helps with them in their order. Fails as the first of them that has failed.
class TaskChain final : public CollectiveTask, public std::enable_shared_from_this<TaskChain> {
 public:
  explicit TaskChain(std::vector<std::shared_ptr<CollectiveTask>> tasks) : tasks_(std::move(tasks)) {}  ///< one or more

  void help(Device) override;
  void join(Device device) override { join_tasks(device, tasks_); }
  std::vector<Event> on_streams() const override { return tasks_.back()->on_streams(); }
  std::uint32_t progress() const noexcept override;  ///< place of the first that is not finished
  void wait_past(std::uint32_t progress) noexcept override { tasks_[progress]->wait(); }
  void then(std::function<void()>) override;
  const std::exception_ptr& error() const noexcept override;
  Clock::time_point finished_at() const noexcept override;
  std::chrono::nanoseconds busy() const noexcept override;

 private:
  const std::vector<std::shared_ptr<CollectiveTask>> tasks_;
};

/// The tasks of a chain while it is launched. A launch that throws leaves nothing behind it: what was launched is
/// waited for.
class ChainLaunch {
 public:
  ChainLaunch() = default;
  ~ChainLaunch();
  ChainLaunch(const ChainLaunch&) = delete;
  ChainLaunch& operator=(const ChainLaunch&) = delete;

  std::vector<Event> add(std::shared_ptr<CollectiveTask>);  ///< the events behind which its results lie
  std::shared_ptr<CollectiveTask> task();                   ///< all of them; called once, at the end

 private:
  std::vector<std::shared_ptr<CollectiveTask>> tasks_;
};

}  // namespace tutti
