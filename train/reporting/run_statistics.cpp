// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/run_statistics.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/train/reporting/metric_state.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr auto kAsItIs = EventStorage::Smoothing::none;

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void Throughput::add(double count, double seconds) {
  if (!(count >= 0.0) || !(seconds >= 0.0)) raise("[Throughput] {} in {} seconds", count, seconds);
  count_ += count;
  seconds_ += seconds;
}

void Throughput::merge(const Throughput& other) {
  count_ += other.count_;
  seconds_ = std::max(seconds_, other.seconds_);
}

std::string Throughput::to_text() const {
  MetricState state;
  state.put(count_);
  state.put(seconds_);
  return state.text();
}

void Throughput::load_text(const std::string& text) {
  MetricState state("Throughput", text);
  Throughput loaded;
  loaded.count_ = state.take();
  loaded.seconds_ = state.take();
  state.end();
  *this = loaded;
}

void put_memory(EventStorage& storage, std::span<const Device> devices) {
  double most = 0.0;
  {
    const auto scope = storage.name_scope("memory");
    for (const Device device : devices) {
      const MemoryStatistics memory = memory_pool(device).statistics();
      const auto of_device = storage.name_scope(to_string(device));
      storage.put_scalars({{"in_use", static_cast<double>(memory.in_use)},
                           {"reserved", static_cast<double>(memory.reserved)},
                           {"peak", static_cast<double>(memory.peak_in_use)}},
                          kAsItIs);
      most = std::max(most, static_cast<double>(memory.peak_in_use));
    }
  }
  if (!devices.empty()) storage.put_scalar("memory", most, kAsItIs);
}

void put_sync(EventStorage& storage, const SyncReport& report) {
  const SyncSummary summary = summarize(report);
  if (summary.steps == 0) return;
  const auto scope = storage.name_scope("sync");
  storage.put_scalars(
      {{"step_time", seconds(summary.step_time)}, {"skew", seconds(summary.skew)}, {"hidden", summary.hidden}},
      kAsItIs);
  if (summary.exposed) storage.put_scalar("exposed", seconds(*summary.exposed), kAsItIs);
  if (summary.exposed_noise) storage.put_scalar("exposed_noise", seconds(*summary.exposed_noise), kAsItIs);
  const auto lateness = storage.name_scope("lateness");
  const int world = world_of(report.devices);
  for (std::size_t d = 0; d < summary.lateness.size(); ++d)
    storage.put_scalar(to_string(report.devices[d], world), seconds(summary.lateness[d]), kAsItIs);
}

}  // namespace tutti
