// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/member/sync_member.h>
#include <tutti/distributed/replica/replica_state.h>
#include <tutti/distributed/sync_server.h>

#include <memory>
#include <span>

namespace tutti {

/// Makes the replicas of a group equal as it forms again after a failure: copies the state of a whole replica ahead to
/// those behind, and undoes what the failed step did on the others. Returns the state that followers continue from.
/// `members`: all of the group. The server calls it, on whichever thread processes the last device's message, while
/// every member that has not left waits in rejoin: so replicas may be written from one thread. Throws SyncError if no
/// device that is ahead has a whole replica, or a share of a sharded optimizer's state is lost.
std::shared_ptr<const ReplicaState> make_replicas_equal(std::span<const std::unique_ptr<SyncMember>> members,
                                                        const DistributedSyncServer::Reformation&);

}  // namespace tutti
