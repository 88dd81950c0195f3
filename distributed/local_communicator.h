// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>
#include <tutti/distributed/staged_task.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

namespace tutti {

/// CPU devices of one process: their gradients are summed in shared memory, in place, in device order. A reduction is
/// cut into chunks, of which each device has an equal share. Chunks are claimed by atomic counter: a device's thread
/// takes its own share whenever it posts something, and anybody's when it waits; one worker alone waits for inputs that
/// are not ready yet (asynchronous streams). Each element is summed by one thread in one order, so results do not
/// depend on who helped.
class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator() = default;
  ~LocalCommunicator() override;  ///< finishes what was launched
  LocalCommunicator(const LocalCommunicator&) = delete;
  LocalCommunicator& operator=(const LocalCommunicator&) = delete;

  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest) override;
  std::shared_ptr<CollectiveTask> reduce_sparse(SparseReduction) override;
  std::shared_ptr<CollectiveTask> compressed_all_reduce(std::shared_ptr<CompressedReduction>, std::vector<Event> ready,
                                                        std::vector<Device> helping) override;
  std::shared_ptr<CollectiveTask> collective(CollectiveRequest) override;
  void help(Device) override;
  void help_all(Device) override;
  void join(Device device, std::span<const std::shared_ptr<CollectiveTask>>) override;

 private:
  void open(const std::shared_ptr<StagedTask>&);
  // The oldest whose inputs are ready and that has unclaimed chunks, in the device's share if one is given.
  std::shared_ptr<StagedTask> next_task(std::optional<Device>);
  void drop_claimed();  // drops tasks at the front of open_ without unclaimed chunks
  void run_worker();

  std::mutex mutex_;  // guards what follows: launches and claims of tasks come from several threads
  std::deque<std::shared_ptr<StagedTask>> open_;          // oldest first; all that may have unclaimed chunks
  std::uint64_t first_open_ = 0;                          // number of open_.front(), counted since the beginning
  std::unordered_map<Device, std::uint64_t> next_share_;  // number of the first task that may have some of its share
  std::atomic<int> open_count_{0};                        // lets help() return without the lock
  std::condition_variable work_;                          // the worker sleeps here until a task's inputs are late
  bool stopping_ = false;
  std::thread worker_;  // started with the first task whose inputs were not ready; owned and joined here
};

}  // namespace tutti
