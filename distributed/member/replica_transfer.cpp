// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/replica_transfer.h>

#include <tutti/backend/raise.h>

namespace tutti {

namespace {

using Members = std::span<const std::unique_ptr<SyncMember>>;
using Reformation = DistributedSyncServer::Reformation;

// Of those that have applied as many steps as anybody.
MemberIndex whole_replica(Members members, const Reformation& reform) {
  if (!members[reform.ahead]->replica().is_torn()) return reform.ahead;
  for (const MemberIndex index : reform.level)
    if (!members[index]->replica().is_torn()) return index;
  raise<SyncError>(
      "[rejoin] the optimizer step of {} threw midway, or its optimizer is gone, and no other device has applied as "
      "many steps: load one "
      "checkpoint's parameters and optimizer state on every device",
      members[reform.ahead]->name());
}

// Nobody else has a share's optimizer state.
void refuse_lost_shares(Members members, std::span<const MemberIndex> behind) {
  for (const auto& member : members) {
    ShareProgress& progress = member->share().progress();
    if (!progress.whole()) {
      for (const auto& other : members)
        other->share().progress().require_load();  // nobody goes on with another's checkpoint
      raise<SyncError>("[rejoin] {}", progress.torn_text(member->name()));
    }
    if (progress.kept() && !behind.empty())
      raise<SyncError>(
          "[rejoin] {} is behind other devices, which do not have the optimizer state of its share: load one "
          "checkpoint on every device, then rejoin with equal steps",
          members[behind.front()]->name());
  }
}

}  // namespace

std::shared_ptr<const ReplicaState> make_replicas_equal(Members members, const Reformation& reform) {
  for (const MemberIndex index : reform.left)
    if (!members[index]->share().progress().kept()) members[index]->enter_group(reform.group);
  refuse_lost_shares(members, reform.behind);
  const MemberIndex source = whole_replica(members, reform);
  std::shared_ptr<const ReplicaState> state = members[source]->replica().capture();
  for (const MemberIndex index : reform.behind) members[index]->restore(*state);
  if (source != reform.ahead) members[reform.ahead]->restore(*state);
  for (const MemberIndex index : reform.level) {
    if (index == source) continue;
    if (members[index]->replica().is_torn())
      members[index]->restore(*state);
    else
      members[index]->restore_failed_step(*state);
  }
  return state;
}

}  // namespace tutti
