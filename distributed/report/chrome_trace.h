// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/sync_report.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Commit of one step as a process saw it.
struct StepRelease {
  std::uint64_t group = 0;
  std::int64_t generation = 0;
  std::chrono::nanoseconds at{0};  ///< time by that process's steady clock
};

/// The commits that a report has, oldest first.
std::vector<StepRelease> releases_of(const SyncReport&);

/// Estimate of how far a process's clock is ahead of another one's, for two hosts: the median of the differences
/// between their times of the same commits. 0 where they have none in common.
std::chrono::nanoseconds clock_shift(std::span<const StepRelease> own, std::span<const StepRelease> other);

/// Time at which the report's first step was opened; the clock's largest where it has none.
std::chrono::nanoseconds first_time(const SyncReport&);

/// A report's events in Chrome's trace event format, a line each, with commas between
/// them: a track for every device and one for reductions.
/// `world`: number of processes, of which the report is one's. `origin`: the clock's time that is 0 in the trace.
std::string trace_events(const SyncReport&, int world, std::chrono::nanoseconds origin);

}  // namespace tutti
