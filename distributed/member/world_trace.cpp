// SPDX-License-Identifier: Apache-2.0
// One trace of all processes: clocks are compared first, so that each can write its own events in the first one's time.
#include <tutti/autodiff/tensor.h>
#include <tutti/backend/profile/trace_lines.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/report/chrome_trace.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace tutti {

namespace {

// What one process tells of its clock, in numbers: how many, the host's kernel, when it began, then its commits.
struct ClockTold {
  std::int64_t kernel = 0;
  std::chrono::nanoseconds begin{0};
  std::vector<StepRelease> releases;

  std::vector<std::int64_t> numbers() const {
    std::vector<std::int64_t> all{static_cast<std::int64_t>(3 + 3 * releases.size()), kernel, begin.count()};
    for (const StepRelease& each : releases)
      all.insert(all.end(), {static_cast<std::int64_t>(each.group), each.generation, each.at.count()});
    return all;
  }
  explicit ClockTold(std::span<const std::int64_t> all) : kernel(all[1]), begin(all[2]) {
    for (std::size_t at = 3; at + 2 < all.size(); at += 3)
      releases.push_back({static_cast<std::uint64_t>(all[at]), all[at + 1], std::chrono::nanoseconds(all[at + 2])});
  }
  ClockTold(const SyncReport& report, std::int64_t own_kernel)
      : kernel(own_kernel), begin(first_time(report)), releases(releases_of(report)) {}
};

// Processes of one kernel have one steady clock.
std::int64_t kernel_of_host() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return static_cast<std::int64_t>(std::hash<std::string>()(id));
}

// Gathers what each process's first device sends; the others send nothing.
template <class T> std::vector<T> gather(GradientSync& sync, const std::vector<T>& own, const char* purpose) {
  std::vector<PendingTensor> pending;
  for (const Device device : sync.devices()) {
    const std::vector<T> sent = pending.empty() ? own : std::vector<T>{};
    pending.push_back(
        sync.all_gather(device, Tensor(Array::from(sent, {static_cast<std::int64_t>(sent.size())}, device)), purpose));
  }
  std::vector<T> all;
  for (PendingTensor& each : pending) all = each.resolve().to_vector<T>();
  return all;
}

// What the processes told, by rank. SyncError where that has no end.
std::vector<ClockTold> clocks_of(std::span<const std::int64_t> numbers) {
  std::vector<ClockTold> clocks;
  while (!numbers.empty()) {
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(numbers[0], 0));
    if (count < 3 || count > numbers.size())
      raise<SyncError>("[trace] what the processes told of their clocks ends after {} numbers", clocks.size());
    clocks.emplace_back(numbers.first(count));
    numbers = numbers.subspan(count);
  }
  return clocks;
}

}  // namespace

void write_chrome_trace(GradientSync& sync, const std::string& path) {
  const SyncReport report = sync.report();
  const int rank = report.devices.front().rank;
  const ClockTold own(report, kernel_of_host());
  const auto clocks = clocks_of(gather(sync, own.numbers(), "the clocks of a trace"));
  const auto shift_of = [&](const ClockTold& clock) {
    return clock.kernel == clocks[0].kernel ? std::chrono::nanoseconds(0)
                                            : clock_shift(clock.releases, clocks[0].releases);
  };
  std::chrono::nanoseconds origin = clocks[0].releases.empty() ? std::chrono::nanoseconds(0) : clocks[0].begin;
  for (const ClockTold& clock : clocks)
    if (!clock.releases.empty()) origin = std::min(origin, clock.begin - shift_of(clock));
  const std::string events =
      (rank == 0 ? "" : ",\n") + trace_events(report, static_cast<int>(clocks.size()), origin + shift_of(own));
  const auto all = gather(sync, std::vector<std::uint8_t>(events.begin(), events.end()), "the events of a trace");
  if (rank == 0) write_trace({all.begin(), all.end()}, path);
}

}  // namespace tutti
