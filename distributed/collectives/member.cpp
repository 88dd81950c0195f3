// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives/member.h>

#include <tutti/backend/formulas/sum_tree.h>
#include <tutti/backend/raise.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ostream>
#include <utility>

namespace tutti {

std::vector<Member> members_of(std::span<const Device> devices, int rank) {
  std::vector<Member> members;
  members.reserve(devices.size());
  for (const Device device : devices) members.emplace_back(rank, device);
  return members;
}

int world_of(std::span<const Member> members) {
  int largest = 0;
  for (const Member& member : members) largest = std::max(largest, member.rank);
  return largest + 1;
}

// A rank that there should not be is shown: the error may be about it.
std::string to_string(const Member& member, int world) {
  const std::string device = to_string(member.device);
  return world > 1 || member.rank != 0 ? fmt::format("rank {} {}", member.rank, device) : device;
}

std::ostream& operator<<(std::ostream& out, const Member& member) { return out << to_string(member); }

GroupMembers::GroupMembers(std::vector<Member> members)
    : group_(std::move(members)), members_(group_), world_(world_of(group_)) {
  name_devices();
}

GroupMembers::GroupMembers(std::vector<Member> group, int rank) : group_(std::move(group)), world_(world_of(group_)) {
  std::ranges::copy_if(group_, std::back_inserter(members_), [rank](const Member& each) { return each.rank == rank; });
  first_ = static_cast<std::size_t>(std::ranges::find(group_, rank, &Member::rank) - group_.begin());
  name_devices();
}

void GroupMembers::name_devices() {
  if (group_.size() > kMostLeaves)
    raise<SyncError>("[sync] a group has at most {} devices, not {}", kMostLeaves, group_.size());
  devices_.reserve(members_.size());
  for (const Member& member : members_) devices_.push_back(member.device);
}

}  // namespace tutti
