// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/member/sync_member.h>
#include <tutti/distributed/replica/replica_state.h>
#include <tutti/distributed/sync_server.h>

#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// Makes the replicas of a group equal as it forms again after a failure. The server calls it, on whichever thread
/// processes the last device's message, while every member that has not left waits in rejoin: so replicas may be
/// written from one thread.
class ReplicaTransfer {
 public:
  /// `members`, all of the group, outlive it.
  explicit ReplicaTransfer(std::span<const std::unique_ptr<SyncMember>> members) : members_(members) {}

  /// Copies the state of a whole replica ahead to those behind, and undoes what the failed step did on the others.
  /// Returns the state that followers continue from. Throws SyncError if no device that is ahead has a whole replica,
  /// or a share of a sharded optimizer's state is lost.
  std::shared_ptr<const ReplicaState> continue_from(const DistributedSyncServer::Reformation&);

 private:
  MemberIndex whole_replica(const DistributedSyncServer::Reformation&) const;
  void refuse_lost_shares(std::span<const MemberIndex> behind);

  const std::span<const std::unique_ptr<SyncMember>> members_;
};

}  // namespace tutti
