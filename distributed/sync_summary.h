// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/sync_report.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// Summary of a report's finished steps. Times are medians over steps; a step counts when all its devices joined.
struct SyncSummary {
  using Nanoseconds = std::chrono::nanoseconds;

  struct Parameter {
    std::string name;
    Nanoseconds spread;     ///< time between the first device's gradient and the last one's
    Nanoseconds queued;     ///< time between the last gradient and the launch
    Nanoseconds reduction;  ///< time between the launch and the end
    double hidden;          ///< share of the reductions' time before the last device's backward had ended, in [0, 1]
  };

  std::size_t steps = 0;              ///< finished steps with reductions
  Nanoseconds step_time{0};           ///< first registration to last join
  Nanoseconds skew{0};                ///< first device's end of backward to the last one's
  std::vector<Nanoseconds> lateness;  ///< each device's end of backward after the first device's
  /// Share of all buckets' time before the last device's backward had ended, in [0, 1]. Devices are the report's: of
  /// several processes, what waits for another one's gradients is not hidden.
  double hidden = 0.0;
  std::optional<Nanoseconds> exposed;  ///< step_time less that of steps with reductions switched off, if any
  /// How far off `exposed` may be, half a 95 % interval: what is no larger shows nothing. None: too few steps to tell.
  std::optional<Nanoseconds> exposed_noise;
  std::vector<Parameter> parameters;  ///< slowest reduction first
};

SyncSummary summarize(const SyncReport&);

/// A table to read: the step, each device's lateness, the slowest parameters.
std::string summary_text(const SyncReport&, std::size_t slowest = 10);

}  // namespace tutti
