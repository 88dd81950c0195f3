// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/cache_line_gap.h>
#include <tutti/distributed/collectives/crew.h>
#include <tutti/distributed/engines/local/staged_task.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

namespace tutti {

/// The devices' threads of one process, and a worker of its own that alone waits for inputs that are not ready yet
/// (asynchronous streams, other tasks). Tasks are worked on oldest first.
class LocalCrew final : public Crew {
 public:
  LocalCrew() = default;
  ~LocalCrew() override { finish(); }
  LocalCrew(const LocalCrew&) = delete;
  LocalCrew& operator=(const LocalCrew&) = delete;

  void open(const std::shared_ptr<StagedTask>&);  ///< takes it up; by and by it is worked on
  void finish() noexcept;                         ///< finishes what was opened; nothing may be opened any more
  void help(Device) override;
  void help_all(Device) override;
  std::shared_ptr<CollectiveTask> run(std::vector<Event> ready, std::span<const Device> helping, std::int64_t chunks,
                                      std::function<void(std::int64_t chunk)> work) override;

 private:
  // The oldest whose inputs are ready and that has unclaimed chunks, in the device's share if one is given.
  std::shared_ptr<StagedTask> next_task(std::optional<Device>);
  void drop_claimed();  // drops tasks at the front of open_ without unclaimed chunks
  void run_worker();

  std::atomic<int> open_count_{0};  // polled by those who wait: help() returns without the lock while it is 0
  [[maybe_unused]] CacheLineGap gap_;
  std::mutex mutex_;  // guards what follows: launches and claims of tasks come from several threads
  std::deque<std::shared_ptr<StagedTask>> open_;          // oldest first; all that may have unclaimed chunks
  std::uint64_t first_open_ = 0;                          // number of open_.front(), counted since the beginning
  std::unordered_map<Device, std::uint64_t> next_share_;  // number of the first task that may have some of its share
  std::condition_variable work_;                          // the worker sleeps here until a task's inputs are late
  bool stopping_ = false;
  std::thread worker_;  // started with the first task whose inputs were not ready; owned and joined here
};

}  // namespace tutti
