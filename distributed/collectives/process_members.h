// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/member.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tutti {

struct AllReduceRequest;

/// The most slices of one process in an all-reduce between processes.
constexpr std::size_t kMostSharedSlices = 16;

/// The members of a group as an engine between processes sees them: which process has each, and which are this
/// process's. Constant.
class ProcessMembers {
 public:
  /// `engine`: its name, in errors. `ranks`: those of the processes, ascending; the own one is among them. SyncError
  /// naming the rank or device for a member of another process, a process without one or with more than
  /// kMostSharedSlices, and a device that is no CPU.
  ProcessMembers(std::string engine, std::span<const Member>, std::vector<int> ranks, int rank);

  int rank() const noexcept { return rank_; }                              ///< this process's
  std::span<const Member> all() const noexcept { return members_.all(); }  ///< members at their numbers
  /// Place of the process, ascending by rank, that has the device of this number; SyncError if none has.
  std::size_t place_of(std::size_t number) const;
  /// Most devices of any process.
  std::size_t most_slices() const noexcept { return most_slices_; }
  /// Gives the slices of an all-reduce, which are checked otherwise, this process's numbers, where it has none. Throws
  /// SyncError for numbers that are not those of the slices' devices.
  void number_slices(AllReduceRequest&) const;
  /// SyncError naming a rank that has none of these members: the engine cannot go on without a process.
  void require_all(std::span<const Member>) const;

 private:
  std::string engine_;
  GroupMembers members_;
  std::vector<int> ranks_;
  int rank_;
  std::vector<std::size_t> own_numbers_;  // numbers of this process's devices
  std::size_t most_slices_ = 0;
};

}  // namespace tutti
