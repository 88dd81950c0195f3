// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <compare>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Identity of one that takes part in a group: a device of one of its processes. A device alone is a place of memory in
/// this process; two processes both have a cpu:0.
struct Member {
  int rank = 0;  ///< number of the process, from 0; a group of one process has 0 alone
  Device device;

  constexpr Member() = default;
  constexpr Member(Device own) : device(own) {}  // NOLINT(google-explicit-constructor): of the only process
  constexpr Member(int process, Device its) : rank(process), device(its) {}

  friend auto operator<=>(const Member&, const Member&) = default;
};

/// The devices of one process as members, in their order.
std::vector<Member> members_of(std::span<const Device>, int rank = 0);

/// Number of processes that have these members: the largest rank and one.
int world_of(std::span<const Member>);

/// "cpu:0" where there is one process, else "rank 1 cpu:0". `world`: number of processes.
std::string to_string(const Member&, int world = 1);
std::ostream& operator<<(std::ostream&, const Member&);

/// The members of a group, the part of them that one process has, each at its place there, and the names that users
/// know them by. Constant.
class GroupMembers {
 public:
  /// Members of one process, or of all processes for who does not tell them apart. SyncError if they are more than the
  /// tree of sums has numbers for.
  explicit GroupMembers(std::vector<Member>);
  /// Those that the process of this rank has, of the members of all processes, by rank. SyncError as above.
  GroupMembers(std::vector<Member> group, int rank);

  std::size_t size() const noexcept { return members_.size(); }
  /// A member's number in the group, over all processes.
  std::size_t number(std::size_t place) const noexcept { return first_ + place; }
  /// Place here of the member of that number; none: another process has it.
  std::optional<std::size_t> place_of(std::size_t number) const noexcept {
    return number >= first_ && number - first_ < members_.size() ? std::optional(number - first_) : std::nullopt;
  }
  /// Number of devices that other processes have.
  std::size_t outside() const noexcept { return group_.size() - members_.size(); }
  const Member& operator[](std::size_t place) const { return members_[place]; }
  std::span<const Member> all() const noexcept { return members_; }         ///< those of this process
  std::span<const Member> group() const noexcept { return group_; }         ///< those of all processes, by number
  const std::vector<Device>& devices() const noexcept { return devices_; }  ///< each member's, by place
  int world() const noexcept { return world_; }                             ///< number of processes
  /// "cpu:0" where there is one process, else "rank 1 cpu:0".
  std::string name(std::size_t place) const { return to_string(members_[place], world_); }

 private:
  void name_devices();

  std::vector<Member> group_;
  std::vector<Member> members_;
  std::vector<Device> devices_;
  int world_;
  std::size_t first_ = 0;
};

}  // namespace tutti

template <> struct std::hash<tutti::Member> {
  std::size_t operator()(const tutti::Member& member) const noexcept {
    return static_cast<std::size_t>(member.rank) << 24U ^ std::hash<tutti::Device>()(member.device);
  }
};
