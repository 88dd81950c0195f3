// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/sync_report.h>
#include <tutti/distributed/sync_waiter.h>

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace tutti {

/// Keeps when things happened in the last steps. Written while the mailbox is drained and by joining devices, read by
/// anybody: its lock covers a few stores each time.
class SyncRecorder {
 public:
  using Time = SyncReport::Time;

  SyncRecorder(std::size_t devices, std::size_t steps) : devices_(devices), steps_(steps) {}

  void set_parameters(std::size_t count);
  void begun(std::uint64_t group, std::int64_t generation, std::size_t device, Time);
  void ready(std::int64_t generation, std::size_t device, ParameterId, Time);
  void launched(std::int64_t generation, ParameterId, std::shared_ptr<CollectiveTask>, Time);
  void backward_ended(std::int64_t generation, std::size_t device, Time);
  void released(std::int64_t generation, double total_weight, Time);
  void joined(std::int64_t generation, std::size_t device, Time);

  std::vector<SyncReport::Step> steps() const;

 private:
  struct Launched {
    ParameterId parameter;
    Time at;
    std::shared_ptr<CollectiveTask> task;
  };
  struct Record {
    SyncReport::Step step;    // without its reductions
    std::vector<Time> ready;  // parameter * devices + device
    std::vector<Launched> launched;
  };
  Record* find(std::int64_t generation);  // of the current group; null if it was dropped

  std::size_t devices_;
  std::size_t steps_;
  std::size_t parameters_ = 0;
  mutable std::mutex mutex_;  // joins come from the devices' threads
  std::deque<Record> records_;
};

}  // namespace tutti
