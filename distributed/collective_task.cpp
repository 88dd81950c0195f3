// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collective_task.h>

#include <utility>

namespace tutti {

namespace {

/// The end of a task that is finished when its engine says so.
class TaskEvent final : public EventState {
 public:
  explicit TaskEvent(std::shared_ptr<const CollectiveTask> task) : task_(std::move(task)) {}

  bool ready() const override { return task_->finished(); }
  void synchronize() override {
    task_->wait();
    if (task_->error()) std::rethrow_exception(task_->error());
  }
  void wait() noexcept override { task_->wait(); }

 private:
  std::shared_ptr<const CollectiveTask> task_;
};

}  // namespace

void join_tasks(Device device, std::span<const std::shared_ptr<CollectiveTask>> tasks) {
  if (tasks.size() > 1)
    for (const auto& task : tasks) task->help(device);
  std::exception_ptr error;
  for (const auto& task : tasks) try {
      task->join(device);
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  if (error) std::rethrow_exception(error);
}

std::vector<Event> events_of(const std::shared_ptr<const CollectiveTask>& task) {
  std::vector<Event> events = task->on_streams();
  if (events.empty()) events.emplace_back(std::make_shared<TaskEvent>(task));
  return events;
}

}  // namespace tutti
