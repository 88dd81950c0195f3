// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/member/parts/device_threads.h>
#include <tutti/distributed/member/replica_transfer.h>
#include <tutti/distributed/member/sync_member.h>
#include <tutti/distributed/sync_server.h>

#include <memory>
#include <string_view>
#include <vector>

namespace tutti {

/// Everything of one group: the server, each device's side, users' collectives. The one owner: steps, pending results,
/// parameters and optimizers that refer to a part hold a pointer that owns the whole group.
class SyncGroup {
 public:
  /// Throws SyncError or DeviceError for devices that cannot be a group. `engine`: null for the one that fits them.
  static std::shared_ptr<SyncGroup> make(std::vector<Device>, const SyncOptions&, std::unique_ptr<Communicator> engine);
  SyncGroup(const SyncGroup&) = delete;
  SyncGroup& operator=(const SyncGroup&) = delete;

  const std::vector<Device>& devices() const noexcept { return devices_; }
  DistributedSyncServer& server() noexcept { return server_; }
  /// Throws SyncError, naming the operation, in a child of the group's process.
  DistributedSyncServer& server_here(std::string_view operation);

  /// The side of a device of the group, which must be `group`'s; else SyncError.
  static std::shared_ptr<SyncMember> member(const std::shared_ptr<SyncGroup>& group, Device);
  static std::shared_ptr<Collectives> collectives(const std::shared_ptr<SyncGroup>& group);

 private:
  SyncGroup(std::vector<Device>, const SyncOptions&, std::unique_ptr<Communicator>);
  ~SyncGroup() = default;
  static void end(SyncGroup*);

  const std::vector<Device> devices_;
  DistributedSyncServer server_;
  DeviceThreads threads_;
  const std::vector<std::unique_ptr<SyncMember>> members_;
  Collectives collectives_;
  ReplicaTransfer transfer_;
};

}  // namespace tutti
