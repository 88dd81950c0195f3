// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/member/sync_member.h>

#include <string_view>

namespace tutti {

/// The calling thread's use of a device's side of a group, while this lives. Uses nest on one thread; a second thread
/// is refused, and because the first must not go on unaware, the group fails. Throws SyncError, naming the operation
/// and the device, also in a child of the group's process and in the group's own callbacks.
class [[nodiscard]] DeviceUse {
 public:
  DeviceUse(SyncMember&, std::string_view operation);
  ~DeviceUse();
  DeviceUse(const DeviceUse&) = delete;
  DeviceUse& operator=(const DeviceUse&) = delete;

  SyncMember* operator->() const noexcept { return &member_; }
  /// Calls `act()` and returns true if the device is this thread's to use, else returns false. Made for what cannot
  /// throw.
  template <class Act> static bool try_with(SyncMember& member, Act act) {
    if (!member.server().here() || DistributedSyncServer::in_any_callback()) return false;
    DeviceUse use(member);
    const bool taken = use.taken_ != DeviceThread::Taken::refused;
    if (taken) act();
    return taken;
  }

 private:
  explicit DeviceUse(SyncMember&) noexcept;
  static SyncMember& allowed(SyncMember&, std::string_view operation);  ///< throws before the device counts as used

  SyncMember& member_;
  DeviceThread::Taken taken_;
};

}  // namespace tutti
