// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/member/parts/member_place.h>
#include <tutti/distributed/member/parts/pending_gathers.h>
#include <tutti/distributed/member/parts/standing.h>
#include <tutti/distributed/member/parts/step_results.h>
#include <tutti/distributed/replica/share_progress.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti {

/// A device's share of a sharded optimizer's state, if it keeps one: its parameters are joined before they are used,
/// and it may not leave without following. For the thread that drives the device, except for `progress`.
class MemberShare {
 public:
  /// Takes references: the arguments outlive the share.
  MemberShare(const MemberPlace&, const Standing&, StepResults&);

  void attach(PendingGathers&);  ///< throws SyncError if there is one
  void detach() noexcept;
  ShareProgress& progress() noexcept { return progress_; }  ///< any thread

  bool is_owned() const noexcept { return gathers_ != nullptr; }  ///< the device has a sharded optimizer
  void join();             ///< throws, and fails the group where that is why, if the parameters will never be whole
  void settle() noexcept;  ///< waits for gathers under way
  /// An update of the share begins. Throws SyncError for gradients of an old group.
  void begin(std::int64_t step, std::size_t gathers);
  /// Throws SyncError if the device's gradients are of a group after which another has formed.
  void refuse_old_group(std::string_view operation) const;
  /// The device is about to leave without following. Throws SyncError if it keeps a share, which nobody else would
  /// update; in a group of several processes, whose devices may all leave after the same step, it joins.
  void prepare_leaving();

 private:
  const MemberPlace place_;
  const Standing& standing_;
  StepResults& results_;
  PendingGathers* gathers_ = nullptr;
  ShareProgress progress_;
};

}  // namespace tutti
