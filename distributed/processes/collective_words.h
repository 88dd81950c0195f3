// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/collective_call.h>
#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/processes/process_link.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

/// A users' collective that devices have posted: those of one process, or of the whole group.
struct PostedCollective {
  std::int64_t number = 0;              ///< counts the group's collectives, from 1
  std::vector<CollectiveCall> calls{};  ///< each device's
  bool differentiable = false;          ///< some device's input requires a gradient
};

/// Words of a process to the others about a collective that all its devices have posted: some 50 bytes, its purpose,
/// and 12 bytes and more for each device. Its devices' calls agree.
ProcessLink::Bytes words_of(const PostedCollective&);

/// The collective that all processes have told of, with the calls of all the group's devices by number. Throws
/// SyncError for bytes that are none, naming the rank, and for calls that do not agree, naming the number, both devices
/// and both calls.
PostedCollective posted_by_all(std::span<const ProcessLink::Bytes> by_rank, const GroupMembers&);

}  // namespace tutti
