// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/messages/sync_waiter.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// Tells whether one device's parameters are all of one step, while it updates its share and the others' shares arrive.
/// Thread-safe: the thread that drives the device writes; whoever makes the group form again reads, while a device that
/// follows goes on.
class ShareProgress {
 public:
  /// A sharded optimizer begins or ends. What it has torn stays torn: the device's parameters outlive it.
  void keep(bool kept);
  bool kept() const;

  /// The share changes from now on, to that of this step; complete when the server has answered so many gathers.
  /// Nothing begins if `check` throws: no other thread sees the share between the two.
  void begin(std::int64_t step, std::size_t gathers, const std::function<void()>& check);
  void posted(std::shared_ptr<const CollectiveWaiter>);
  /// All parameters are of this step.
  void load(std::int64_t step);
  void require_load();  ///< not whole until `load`, whatever else happens

  /// No update has begun whose gathers have not all been matched: the parameters are, or will soon be, of one step.
  bool whole() const;
  bool torn() const;  ///< an update has begun that will never be complete
  bool settle();      ///< answers as `whole`; if true, forgets the gathers, which have ended well
  std::string torn_text(std::string_view member) const;

 private:
  bool complete() const;

  mutable std::mutex mutex_;
  bool kept_ = false;
  bool must_load_ = false;
  std::int64_t step_ = 0;
  std::size_t awaited_ = 0;                                       // gathers of the step
  std::vector<std::shared_ptr<const CollectiveWaiter>> gathers_;  // gathers that were posted
};

}  // namespace tutti
