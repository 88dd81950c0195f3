// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/local/local_crew.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/start_thread.h>
#include <tutti/distributed/threads/spinning_lock.h>

#include <algorithm>
#include <utility>

namespace tutti {

void LocalCrew::finish() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  if (worker_.joinable()) worker_.join();
  for (;;) {  // no worker ran: its inputs were ready at launch, and nobody had time since
    std::shared_ptr<StagedTask> task;
    {
      const std::lock_guard lock(mutex_);  // a task that waits for others lets its thread come by here
      drop_claimed();
      if (open_.empty()) return;
      task = open_.front();
    }
    task->wait_for_inputs();
    task->wait();
  }
}

void LocalCrew::open(const std::shared_ptr<StagedTask>& task) {
  const bool late = !task->inputs_ready();
  {
    const auto lock = lock_spinning(mutex_);
    if (late && !worker_.joinable()) worker_ = start_thread<SyncError>("sync", [this] { run_worker(); });
    open_.push_back(task);
    open_count_.store(static_cast<int>(open_.size()), std::memory_order_release);
  }
  if (late) work_.notify_one();
}

void LocalCrew::drop_claimed() {
  while (!open_.empty() && !open_.front()->may_have_more({})) {
    open_.pop_front();
    ++first_open_;
  }
  open_count_.store(static_cast<int>(open_.size()), std::memory_order_release);
}

// What a device has claimed all of its share of is not looked at again.
std::shared_ptr<StagedTask> LocalCrew::next_task(std::optional<Device> device) {
  const auto lock = lock_spinning(mutex_);
  drop_claimed();
  std::uint64_t none = first_open_;
  std::uint64_t& next = device ? next_share_[*device] : none;
  next = std::max(next, first_open_);
  bool all_claimed = true;
  for (std::uint64_t number = next; number < first_open_ + open_.size(); ++number) {
    const auto& task = open_[number - first_open_];
    if (task->has_unclaimed_chunks(device) && task->ready()) return task;
    if (task->may_have_more(device))
      all_claimed = false;
    else if (all_claimed)
      next = number + 1;
  }
  return nullptr;
}

void LocalCrew::help(Device device) {
  while (open_count_.load(std::memory_order_acquire) > 0) {
    const auto task = next_task(device);
    if (!task) return;
    task->run(device);
  }
}

void LocalCrew::help_all(Device device) {
  help(device);
  while (open_count_.load(std::memory_order_acquire) > 0) {
    const auto task = next_task({});
    if (!task) return;
    task->run_all(device);
  }
}

std::shared_ptr<CollectiveTask> LocalCrew::run(std::vector<Event> ready, std::span<const Device> helping,
                                               std::int64_t chunks, std::function<void(std::int64_t)> work) {
  std::vector<WorkStage> stages;
  stages.push_back({chunks, std::move(work)});
  auto task = std::make_shared<FunctionTask>(std::move(ready), helping, std::move(stages));
  open(task);
  return task;
}

void LocalCrew::run_worker() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !open_.empty(); });
    if (open_.empty()) return;  // stopping, and everything launched is done
    const auto task = open_.front();
    lock.unlock();
    task->wait_for_inputs();
    for (std::uint32_t now = task->progress(); task->run_all({}), task->may_have_more({}); now = task->progress())
      task->wait_past(now);  // others run the rest of the stage
    lock.lock();
    drop_claimed();
  }
}

}  // namespace tutti
