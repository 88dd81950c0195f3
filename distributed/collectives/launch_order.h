// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/collective_plan.h>

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace tutti {

/// The one order in which all processes launch the requests of both sequences, for engines whose launches wait for each
/// other on a device. A process says when it has a request; it is launched when all have it, as a link tells that,
/// which tells all processes everything in one order. Between an engine and that link; either may go first.
/// Thread-safe.
class LaunchOrder {
 public:
  /// The link's part.
  struct Link {
    std::function<void(Sequence)> say;                  ///< says to all that this process has the next request
    std::function<std::vector<int>(Sequence)> missing;  ///< ranks that have not said so, of what this one waits for
  };

  /// None: nobody hears of requests any more. Calls that run have ended when it returns, as with on_launch.
  void set_link(Link link) {
    const std::lock_guard lock(link_mutex_);
    link_ = std::move(link);
  }
  /// Sets what launches the oldest request of a sequence that is not launched; none: nothing does any more.
  void on_launch(std::function<void(Sequence)> launch) {
    const std::lock_guard lock(launch_mutex_);
    launch_ = std::move(launch);
  }

  // Called by the engine.
  void say(Sequence sequence) {
    const std::lock_guard lock(link_mutex_);
    if (link_.say) link_.say(sequence);
  }
  std::vector<int> missing(Sequence sequence) {
    const std::lock_guard lock(link_mutex_);
    return link_.missing ? link_.missing(sequence) : std::vector<int>();
  }
  // Called by the link, also within `say`.
  void launch(Sequence sequence) {
    const std::lock_guard lock(launch_mutex_);
    if (launch_) launch_(sequence);
  }

 private:
  std::mutex link_mutex_;
  Link link_;
  std::mutex launch_mutex_;
  std::function<void(Sequence)> launch_;
};

}  // namespace tutti
