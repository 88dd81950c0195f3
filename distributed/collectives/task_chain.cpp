// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives/task_chain.h>

#include <algorithm>
#include <atomic>

namespace tutti {

void TaskChain::help(Device device) {
  for (const auto& task : tasks_) task->help(device);
}

std::uint32_t TaskChain::progress() const noexcept {
  const auto first = std::ranges::find_if(tasks_, [](const auto& task) { return !task->finished(); });
  return first == tasks_.end() ? kFinished : static_cast<std::uint32_t>(first - tasks_.begin());
}

// Whoever finishes a task has that one alone: what is called then may look at the chain.
void TaskChain::then(std::function<void()> next) {
  const auto left = std::make_shared<std::atomic<std::size_t>>(tasks_.size());
  const auto last = std::make_shared<std::function<void()>>(std::move(next));
  for (const auto& task : tasks_)
    task->then([left, last, self = shared_from_this()] {
      if (left->fetch_sub(1, std::memory_order_acq_rel) == 1) (*last)();
    });
}

const std::exception_ptr& TaskChain::error() const noexcept {
  const auto failed = std::ranges::find_if(tasks_, [](const auto& task) { return task->error() != nullptr; });
  return (failed == tasks_.end() ? tasks_.back() : *failed)->error();
}

CollectiveTask::Clock::time_point TaskChain::finished_at() const noexcept {
  Clock::time_point last = tasks_.front()->finished_at();
  for (const auto& task : tasks_) last = std::max(last, task->finished_at());
  return last;
}

std::chrono::nanoseconds TaskChain::busy() const noexcept {
  std::chrono::nanoseconds sum{0};
  for (const auto& task : tasks_) sum += task->busy();
  return sum;
}

ChainLaunch::~ChainLaunch() {
  for (const auto& task : tasks_) task->wait();
}

std::vector<Event> ChainLaunch::add(std::shared_ptr<CollectiveTask> task) {
  tasks_.push_back(std::move(task));
  return events_of(tasks_.back());
}

std::shared_ptr<CollectiveTask> ChainLaunch::task() {
  auto task = std::make_shared<TaskChain>(tasks_);
  tasks_.clear();
  return task;
}

}  // namespace tutti
