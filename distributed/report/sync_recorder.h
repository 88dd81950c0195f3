// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/messages/sync_waiter.h>
#include <tutti/distributed/report/sync_events.h>
#include <tutti/distributed/sync_report.h>

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

  SyncRecorder(std::size_t devices, std::size_t steps, std::size_t events)
      : devices_(devices), steps_(steps), start_(std::chrono::steady_clock::now()), events_(events) {}

  void set_parameters(std::size_t count);
  void begun(std::uint64_t group, std::int64_t generation, std::size_t device, Time opened, Time at);
  void ready(std::int64_t generation, std::size_t device, ParameterId, Time);
  void launched(std::int64_t generation, std::span<const GradientLayout::Place> bucket,
                const std::shared_ptr<CollectiveTask>&, Time);
  void backward_ended(std::int64_t generation, std::size_t device, Time);
  void released(std::int64_t generation, double total_weight, bool reductions_enabled, Time);
  void joined(std::int64_t generation, std::size_t device, Time);

  /// Anything that belongs to no step's times.
  void note(SyncEvent::Kind, std::int64_t generation, std::uint32_t device = SyncEvent::kNone,
            std::uint32_t parameter = SyncEvent::kNone);

  std::vector<SyncReport::Step> steps() const;
  /// Events by time, oldest first; when a reduction finished is looked up among the recorded steps.
  std::vector<SyncEvent> events() const;
  Time start() const noexcept { return start_; }

 private:
  struct Launched {
    ParameterId parameter;
    Time at;
    std::shared_ptr<CollectiveTask> task;
    std::size_t together = 1;  // parameters that the task reduces
  };
  struct Record {
    SyncReport::Step step;    // lacks its reductions
    std::vector<Time> ready;  // parameter * devices + device
    std::vector<Launched> launched;
  };
  Record* find(std::int64_t generation);  // record of the current group; null if it was dropped

  std::size_t devices_;
  std::size_t steps_;
  Time start_;
  std::size_t parameters_ = 0;
  mutable std::mutex mutex_;  // joins come from the devices' threads
  std::deque<Record> records_;
  SyncEvents events_;
};

}  // namespace tutti
