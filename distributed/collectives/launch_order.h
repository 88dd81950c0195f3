// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/collective_plan.h>

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tutti {

/// The one order in which all processes launch the requests of both sequences, for engines whose launches wait for each
/// other on a device. A process says when it has a request; it is launched when all have it, as a link tells that,
/// which tells all processes everything in one order. Shared by an engine and that link; either may go first.
/// Thread-safe.
class LaunchOrder {
 public:
  /// The link's part. It outlives calls that run when it is replaced.
  class Link {
   public:
    virtual ~Link() = default;
    virtual void say(Sequence) = 0;                        ///< tells all that this process has the next request
    virtual std::vector<int> missing(Sequence) const = 0;  ///< ranks without the request that this one waits to launch
  };

  void set_link(std::shared_ptr<Link> link) {  ///< null: nobody hears of requests any more
    const std::lock_guard lock(link_mutex_);
    link_ = std::move(link);
  }
  /// Sets what launches the oldest request of a sequence that is not launched; none: nothing does any more, and calls
  /// have ended. It says nothing.
  void on_launch(std::function<void(Sequence)> launch) {
    const std::lock_guard lock(launch_mutex_);
    launch_ = std::move(launch);
  }

  // Called by the engine.
  void say(Sequence sequence) {
    if (const auto link = this->link()) link->say(sequence);
  }
  std::vector<int> missing(Sequence sequence) const {
    const auto link = this->link();
    return link ? link->missing(sequence) : std::vector<int>();
  }
  /// Called by the link. Within `say`, too, where the last process says it: others' news may be heard there, and more
  /// be requested.
  void launch(Sequence sequence) {
    const std::lock_guard lock(launch_mutex_);
    if (launch_) launch_(sequence);
  }

 private:
  std::shared_ptr<Link> link() const {
    const std::lock_guard lock(link_mutex_);
    return link_;
  }

  mutable std::mutex link_mutex_;
  std::shared_ptr<Link> link_;
  std::mutex launch_mutex_;
  std::function<void(Sequence)> launch_;
};

}  // namespace tutti
