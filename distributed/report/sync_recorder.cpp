// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/report/sync_recorder.h>

#include <tutti/distributed/threads/spinning_lock.h>

#include <algorithm>
#include <utility>

namespace tutti {

using Kind = SyncEvent::Kind;

void SyncRecorder::set_parameters(std::size_t count) {
  const std::lock_guard lock(mutex_);
  parameters_ = count;
}

// At most two generations are live, so the search ends within two records of the newest.
SyncRecorder::Record* SyncRecorder::find(std::int64_t generation) {
  for (std::size_t back = 1; back <= records_.size(); ++back) {
    Record& record = records_[records_.size() - back];
    if (record.step.generation == generation) return &record;
    if (record.step.generation < generation || back > 4) return nullptr;
  }
  return nullptr;
}

void SyncRecorder::begun(std::uint64_t group, std::int64_t generation, std::size_t device, Time opened, Time at) {
  const auto lock = lock_spinning(mutex_);
  events_.add({at, generation, static_cast<std::uint32_t>(device), SyncEvent::kNone, Kind::registered});
  if (steps_ == 0) return;
  Record* record = find(generation);
  if (record == nullptr || record->step.group != group) {
    Record fresh;
    if (records_.size() >= steps_) {  // the oldest one's memory serves again
      fresh = std::move(records_.front());
      records_.pop_front();
      fresh.launched.clear();
    }
    fresh.step = {};
    fresh.step.group = group;
    fresh.step.generation = generation;
    fresh.step.devices.resize(devices_);
    fresh.ready.assign(parameters_ * devices_, Time{});
    records_.push_back(std::move(fresh));
    record = &records_.back();
  }
  record->step.devices[device].opened = opened;
  record->step.devices[device].begin = at;
}

void SyncRecorder::ready(std::int64_t generation, std::size_t device, ParameterId parameter, Time at) {
  const auto lock = lock_spinning(mutex_);
  events_.add({at, generation, static_cast<std::uint32_t>(device), parameter.value, Kind::submitted});
  if (Record* record = find(generation)) record->ready[parameter.value * devices_ + device] = at;
}

void SyncRecorder::launched(std::int64_t generation, std::span<const GradientLayout::Place> bucket,
                            const std::shared_ptr<CollectiveTask>& task, Time at) {
  const auto lock = lock_spinning(mutex_);
  Record* record = find(generation);
  for (const GradientLayout::Place& place : bucket) {
    events_.add({at, generation, SyncEvent::kNone, place.parameter.value, Kind::launched});
    if (record != nullptr) record->launched.push_back({place.parameter, at, task, bucket.size()});
  }
}

void SyncRecorder::backward_ended(std::int64_t generation, std::size_t device, Time at) {
  const auto lock = lock_spinning(mutex_);
  events_.add({at, generation, static_cast<std::uint32_t>(device), SyncEvent::kNone, Kind::synced});
  if (Record* record = find(generation)) record->step.devices[device].backward_end = at;
}

void SyncRecorder::released(std::int64_t generation, double total_weight, bool reductions_enabled, Time at) {
  const auto lock = lock_spinning(mutex_);
  events_.add({at, generation, SyncEvent::kNone, SyncEvent::kNone, Kind::released});
  Record* record = find(generation);
  if (record == nullptr) return;
  record->step.total_weight = total_weight;
  record->step.reductions_enabled = reductions_enabled;
  for (SyncReport::DeviceTimes& times : record->step.devices) times.released = at;
}

void SyncRecorder::joined(std::int64_t generation, std::size_t device, Time at) {
  const auto lock = lock_spinning(mutex_);
  events_.add({at, generation, static_cast<std::uint32_t>(device), SyncEvent::kNone, Kind::joined});
  if (Record* record = find(generation)) record->step.devices[device].joined = at;
}

std::vector<SyncReport::Step> SyncRecorder::steps() const {
  const std::lock_guard lock(mutex_);
  std::vector<SyncReport::Step> steps;
  for (const Record& record : records_) {
    steps.push_back(record.step);
    for (const Launched& launched : record.launched) {
      const auto ready = record.ready.begin() + static_cast<std::ptrdiff_t>(launched.parameter.value * devices_);
      const bool finished = launched.task->finished();
      steps.back().reductions.push_back({.parameter = launched.parameter,
                                         .ready = {ready, ready + static_cast<std::ptrdiff_t>(devices_)},
                                         .launched = launched.at,
                                         .finished = finished ? launched.task->finished_at() : Time{},
                                         .busy = launched.task->busy() / launched.together});
    }
  }
  return steps;
}

void SyncRecorder::note(SyncEvent::Kind kind, std::int64_t generation, std::uint32_t device, std::uint32_t parameter) {
  const auto lock = lock_spinning(mutex_);
  events_.add({std::chrono::steady_clock::now(), generation, device, parameter, kind});
}

std::vector<SyncEvent> SyncRecorder::events() const {
  const std::lock_guard lock(mutex_);
  std::vector<SyncEvent> events = events_.last();
  if (events.empty()) return events;
  const Time oldest = events.front().at;
  for (const Record& record : records_)
    for (const Launched& launched : record.launched)
      if (launched.task->finished() && launched.task->finished_at() >= oldest)
        events.push_back({launched.task->finished_at(), record.step.generation, SyncEvent::kNone,
                          launched.parameter.value, Kind::finished});
  std::ranges::stable_sort(events, {}, &SyncEvent::at);
  return events;
}

}  // namespace tutti
