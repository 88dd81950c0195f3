// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives/member.h>

#include <tutti/backend/error.h>
#include <tutti/backend/formulas/sum_tree.h>

#include <fmt/format.h>

#include <algorithm>
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
    : GroupMembers(members, World{.processes = world_of(members)}) {}

GroupMembers::GroupMembers(std::vector<Member> members, World world)
    : members_(std::move(members)),
      world_(world.processes),
      first_(world.first),
      outside_(world.devices > members_.size() ? world.devices - members_.size() : 0) {
  if (members_.size() + outside_ > kMostLeaves)
    raise<SyncError>("[sync] a group has at most {} devices, not {}", kMostLeaves, members_.size() + outside_);
  devices_.reserve(members_.size());
  for (const Member& member : members_) devices_.push_back(member.device);
}

}  // namespace tutti
