// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives/collective_task.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/collectives/engine_task.h>

namespace tutti {

EngineTask::Next EngineTask::called_;

void CollectiveTask::then(std::function<void()>) {
  raise<SyncError>("[sync] a task of this engine cannot tell when it is finished, or tells somebody else");
}

void TaskEvent::synchronize() {
  task_->wait();
  if (task_->error()) std::rethrow_exception(task_->error());
}

std::vector<Event> TaskEvent::on_streams() const {
  if (task_->finished() && task_->error()) std::rethrow_exception(task_->error());
  return task_->on_streams();
}

void join_tasks(Device device, std::span<const std::shared_ptr<CollectiveTask>> tasks) {
  std::exception_ptr error;
  if (tasks.size() > 1) try {
      for (const auto& task : tasks) task->help(device);
    } catch (...) {
      error = std::current_exception();
    }
  for (const auto& task : tasks) try {
      task->join(device);
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  if (error) std::rethrow_exception(error);
}

std::vector<Event> events_of(const std::shared_ptr<CollectiveTask>& task) {
  std::vector<Event> events = task->on_streams();
  if (events.empty()) events.emplace_back(std::make_shared<TaskEvent>(task));
  return events;
}

}  // namespace tutti
