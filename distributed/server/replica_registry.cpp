// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/replica_registry.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/messages/replica_description.h>

#include <algorithm>
#include <utility>

namespace tutti {

void ReplicaRegistry::refuse_other(std::string_view kind, MemberIndex member, std::span<const SyncParameter> declared,
                                   const Declaration& first) const {
  refuse_difference(kind, {members_.name(member), declared}, {members_.name(*first.by), first.members});
}

void ReplicaRegistry::declare(std::string_view kind, Declaration& first, MemberIndex member,
                              std::vector<SyncParameter> declared) {
  const std::lock_guard lock(mutex_);
  if (first.by) return refuse_other(kind, member, declared, first);
  first = {member, std::move(declared)};
}

bool ReplicaRegistry::has_same_parameters(MemberIndex member, std::span<const SyncParameter> declared) const {
  const std::lock_guard lock(mutex_);
  if (!parameters_.by) return false;
  refuse_other("parameter", member, declared, parameters_);
  return true;
}

void ReplicaRegistry::refuse_late_parameters(MemberIndex member) const {
  if (parameters_closed_)
    raise<SyncError>("[sync] {} declares its parameters after the group's first step, in which no device had any",
                     members_.name(member));
}

void ReplicaRegistry::set_parameters(MemberIndex member, std::vector<SyncParameter> declared) {
  declare("parameter", parameters_, member, std::move(declared));
}

void ReplicaRegistry::declare_frozen(MemberIndex member, std::vector<SyncParameter> declared) {
  declare("frozen parameter", frozen_, member, std::move(declared));
}

void ReplicaRegistry::declare_buffers(MemberIndex member, std::vector<SyncParameter> declared) {
  declare("buffer", buffers_, member, std::move(declared));
}

void ReplicaRegistry::declare_updates(MemberIndex member, std::uint64_t group, std::vector<bool> updated) {
  const std::lock_guard lock(mutex_);
  if (group < updates_.group) return;  // a follower's: the others have formed the next
  if (group > updates_.group) updates_ = {group, member, updated};
  const auto [mine, other] = std::ranges::mismatch(updated, updates_.updated);
  if (mine == updated.end() || other == updates_.updated.end()) return;
  raise<SyncError>(
      "[sync] parameter \"{}\" has an optimizer on {} and none on {}: attach the same optimizers on every device",
      parameters_.members[static_cast<std::size_t>(mine - updated.begin())].name,
      members_.name(*mine ? member : updates_.by), members_.name(*mine ? updates_.by : member));
}

void ReplicaRegistry::declare_values(ReplicaDigest values) {
  const std::lock_guard lock(mutex_);
  if (values_.empty()) values_ = std::move(values);
}

ReplicaDigest ReplicaRegistry::values() const {
  const std::lock_guard lock(mutex_);
  return values_;
}

bool ReplicaRegistry::is_empty() const {
  const std::lock_guard lock(mutex_);
  return parameters_.members.empty() && buffers_.members.empty();
}

std::vector<SyncParameter> ReplicaRegistry::copy_of_parameters() const {
  const std::lock_guard lock(mutex_);
  return parameters_.members;
}

}  // namespace tutti
