// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/replica_transfer.h>

#include <tutti/backend/error.h>

namespace tutti {

std::shared_ptr<const ReplicaState> ReplicaTransfer::continue_from(const DistributedSyncServer::Reformation& reform) {
  for (const MemberIndex index : reform.left)
    if (!members_[index]->share().progress().kept()) members_[index]->enter_group(reform.group);
  refuse_lost_shares(reform.behind);
  const MemberIndex source = whole_replica(reform);
  std::shared_ptr<const ReplicaState> state = members_[source]->replica().capture();
  for (const MemberIndex index : reform.behind) members_[index]->restore(*state);
  if (source != reform.ahead) members_[reform.ahead]->restore(*state);
  for (const MemberIndex index : reform.level) {
    if (index == source) continue;
    if (members_[index]->replica().is_torn())
      members_[index]->restore(*state);
    else
      members_[index]->restore_failed_step(*state);
  }
  return state;
}

// Of those that have applied as many steps as anybody.
MemberIndex ReplicaTransfer::whole_replica(const DistributedSyncServer::Reformation& reform) const {
  if (!members_[reform.ahead]->replica().is_torn()) return reform.ahead;
  for (const MemberIndex index : reform.level)
    if (!members_[index]->replica().is_torn()) return index;
  raise<SyncError>(
      "[rejoin] the optimizer step of {} threw midway, or its optimizer is gone, and no other device has applied as "
      "many steps: load one "
      "checkpoint's parameters and optimizer state on every device",
      to_string(members_[reform.ahead]->device()));
}

// Nobody else has a share's optimizer state.
void ReplicaTransfer::refuse_lost_shares(std::span<const MemberIndex> behind) {
  for (const auto& member : members_) {
    ShareProgress& progress = member->share().progress();
    if (!progress.whole()) {
      for (const auto& other : members_) other->share().progress().require_load();  // nobody goes on with another's
      raise<SyncError>("[rejoin] {}", progress.torn_text(member->device()));
    }
    if (progress.kept() && !behind.empty())
      raise<SyncError>(
          "[rejoin] {} is behind other devices, which do not have the optimizer state of its share: load one "
          "checkpoint on every device, then rejoin with equal steps",
          to_string(members_[behind.front()]->device()));
  }
}

}  // namespace tutti
