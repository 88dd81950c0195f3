// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>
#include <tutti/distributed/staged_task.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace tutti {

/// CPU devices of one process: their gradients are summed in shared memory, in place, in device order. A reduction is
/// cut into chunks of fixed size, claimed by atomic counter by whoever has time: the thread whose gradient completed
/// the reduction (it has the data in its cache), threads that join, and one worker, which alone waits for inputs that
/// are not ready yet (asynchronous streams). Each element is summed by one thread in one order, so results do not
/// depend on who helped.
class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator() = default;
  ~LocalCommunicator() override;  ///< finishes what was launched
  LocalCommunicator(const LocalCommunicator&) = delete;
  LocalCommunicator& operator=(const LocalCommunicator&) = delete;

  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest) override;
  std::shared_ptr<CollectiveTask> compressed_all_reduce(std::shared_ptr<CompressedReduction>,
                                                        std::vector<Event> ready) override;
  std::shared_ptr<CollectiveTask> collective(CollectiveRequest) override;
  void help() override;
  void join(Device device, std::span<const std::shared_ptr<CollectiveTask>>) override;

 private:
  void open(const std::shared_ptr<StagedTask>&);
  std::shared_ptr<StagedTask> next_task();  // the oldest with unclaimed chunks whose inputs are ready
  void run_worker();

  std::mutex mutex_;  // guards what follows: launches and claims of tasks come from several threads
  std::deque<std::shared_ptr<StagedTask>> open_;  // tasks with chunks to claim, now or later, oldest first
  std::atomic<int> open_count_{0};                // lets help() return without the lock
  std::condition_variable work_;                  // the worker sleeps here until a task's inputs are late
  bool stopping_ = false;
  std::thread worker_;  // started with the first task whose inputs were not ready; owned and joined here
};

}  // namespace tutti
