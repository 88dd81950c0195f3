// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/ledger/sync_ledger.h>

#include <atomic>
#include <cstdint>

namespace tutti {

/// A device's standing in its group: the number of its group, the generation of its last step, and whether it has left.
/// For the thread that drives the device, except for the group's number, which any thread may read and
/// `enter`, and `has_left`, which any thread may read.
class Standing {
 public:
  explicit Standing(MemberIndex member) noexcept : member_(member) {}

  Stamp stamp() const noexcept { return stamp(generation_); }
  /// The stamp of an earlier step of this group, or of the next.
  Stamp stamp(std::int64_t generation) const noexcept { return {member_, group_, generation}; }
  std::uint64_t group() const noexcept { return group_; }
  std::int64_t generation() const noexcept { return generation_; }
  bool is_at(std::uint64_t group, std::int64_t generation) const noexcept {
    return group == group_ && generation == generation_;
  }

  void begin_generation() noexcept { ++generation_; }
  /// The device's last generation is this one: it has followed the others there, or 0, before a group's first.
  void set_generation(std::int64_t generation) noexcept { generation_ = generation; }
  void rejoin(std::uint64_t group) noexcept { group_ = group; }
  /// Takes the device into that group, unless it is in a later one. Any thread.
  void enter(std::uint64_t group) noexcept {
    std::uint64_t current = group_;
    while (current < group && !group_.compare_exchange_weak(current, group)) {
    }
  }

  bool has_left() const noexcept { return left_.load(std::memory_order_relaxed); }
  /// Number of the group in which the device left, or whose state it has taken over since.
  std::uint64_t followed_group() const noexcept { return followed_group_; }
  void leave() noexcept {
    left_.store(true, std::memory_order_relaxed);
    followed_group_ = group_;
  }
  /// The device, which has left, continues from that group's state, before its first generation.
  void follow_into(std::uint64_t group) noexcept {
    enter(group);
    followed_group_ = group;
    generation_ = 0;
  }

 private:
  const MemberIndex member_;
  std::atomic<std::uint64_t> group_{1};  // set, once the device has left, by whoever makes the group form again
  std::int64_t generation_ = 0;
  std::atomic<bool> left_{false};
  std::uint64_t followed_group_ = 0;
};

}  // namespace tutti
