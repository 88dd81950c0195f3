// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/parameter_id.h>
#include <tutti/distributed/collectives/member.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

class GradientSync;

/// Record of the server's last steps, oldest first. Times are of std::chrono::steady_clock.
struct SyncReport {
  using Time = std::chrono::steady_clock::time_point;

  struct Reduction {
    ParameterId parameter;
    std::vector<Time> ready;  ///< time when each device submitted its gradient; Time{} if it did not require it
    Time launched;
    Time finished;                  ///< Time{} while in flight
    std::chrono::nanoseconds busy;  ///< thread time spent on it; a bucket's is divided among its parameters
  };
  struct DeviceTimes {
    Time opened;        ///< time of sync.step; Time{} if that is not known
    Time begin;         ///< registration: the synchronised backward begins
    Time backward_end;  ///< collective sync posted
    Time released;      ///< the group committed the step
    Time joined;        ///< its reductions were done: it may step
  };
  struct Step {
    std::uint64_t group = 0;
    std::int64_t generation = 0;
    double total_weight = 0.0;
    bool reductions_enabled = true;  ///< the setting when the step was released
    std::vector<DeviceTimes> devices;
    std::vector<Reduction> reductions;  ///< listed in order of launch
  };

  std::vector<Member> devices;          ///< the group's, in its order; to_string wants their world_of
  std::vector<std::string> parameters;  ///< names, by ParameterId
  std::vector<Step> steps;

  /// Some reduction of the step was launched before the last gradient of its round was final.
  static bool overlapped(const Step&);
  /// How long the device that arrived first waited for the last one's submission.
  static std::chrono::nanoseconds skew(const Step&);
};

/// The report in Chrome's trace event format, one track per device and one for reductions: open it in Perfetto or
/// chrome://tracing. Throws DataError naming the path if it cannot be written.
void write_chrome_trace(const SyncReport&, const std::string& path);

/// Writes one trace of all processes, by the first process. A collective: each process calls it from one thread, for
/// all of its devices, at the same place. Times are the first process's: clocks of one host are the same, those of
/// others are compared at the commits that both saw, so that they differ by less than a message takes. Throws the
/// group's SyncError on all processes, and on the first one DataError naming the path if it cannot be written.
void write_chrome_trace(GradientSync&, const std::string& path);

}  // namespace tutti
