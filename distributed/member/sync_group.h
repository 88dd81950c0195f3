// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/member/parts/device_threads.h>
#include <tutti/distributed/member/replica_transfer.h>
#include <tutti/distributed/member/sync_member.h>
#include <tutti/distributed/sync_server.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

namespace tutti {

/// Everything of one group: the server, each device's side, users' collectives. The one owner: a pointer to a part owns
/// the whole group. Steps and sharded optimizers hold one; parameters, optimizers and pending results, which the group
/// may refer to, lock a weak one.
class SyncGroup : public std::enable_shared_from_this<SyncGroup> {
 public:
  /// Throws SyncError or DeviceError for devices that cannot be a group. `engine`: null for the one that fits them.
  /// `link`: to the group's other processes; null if there are none.
  static std::shared_ptr<SyncGroup> make(std::vector<Device>, const SyncOptions&, std::unique_ptr<Communicator> engine,
                                         std::unique_ptr<ProcessLink> link);
  static void check(std::span<const Device>, const SyncOptions&);  ///< throws what `make` throws for them
  SyncGroup(const SyncGroup&) = delete;
  SyncGroup& operator=(const SyncGroup&) = delete;

  const std::vector<Device>& devices() const noexcept { return server_.members().devices(); }
  DistributedSyncServer& server() noexcept { return server_; }
  /// Throws SyncError, naming the operation, in a child of the group's process.
  DistributedSyncServer& server_here(std::string_view operation);

  std::shared_ptr<SyncMember> member(Device);  ///< throws SyncError for a device that is not in the group
  std::shared_ptr<Collectives> collectives();

 private:
  SyncGroup(GroupMembers, const SyncOptions&, std::unique_ptr<Communicator>, std::unique_ptr<ProcessLink>);
  ~SyncGroup() = default;
  static void end(SyncGroup*);
  void cancel() noexcept;

  DistributedSyncServer server_;
  DeviceThreads threads_;
  const std::vector<std::unique_ptr<SyncMember>> members_;
  Collectives collectives_;
  std::optional<std::stop_callback<std::function<void()>>> cancel_;  // waits for SyncOptions::cancel
};

}  // namespace tutti
