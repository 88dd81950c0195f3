// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/shared_memory/segments/shared_segment.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

/// A meeting of processes that share memory.
struct SegmentMeeting {
  std::string name;  ///< the same for all: what nobody else can guess, as a hash of job and secret; at most 64 bytes
  std::uint64_t epoch = 0;  ///< number of the group, the same for all: who comes with another one is not let in
  std::vector<int> ranks;   ///< processes that meet, ascending
  int rank = 0;             ///< this one
};

/// Gives this process's segment to all others of the meeting and maps theirs, over unix sockets in the abstract
/// namespace. That they meet proves that they run on one host. Returns all segments in the order of the ranks. Only
/// processes of this user that say the right epoch and their rank are let in; others, whatever they send or
/// do not send, hold nobody up. Throws SyncError naming the ranks that have not come within `patience`, Error if the
/// name is taken, and what `look_around` throws, which is called now and then if it is there.
std::vector<std::shared_ptr<SharedSegment>> exchange_segments(const SegmentMeeting&,
                                                              const std::shared_ptr<SharedSegment>& own,
                                                              std::chrono::milliseconds patience,
                                                              const std::function<void()>& look_around = {});

/// Address of a rank's socket in the abstract namespace, without the leading zero byte.
std::string segment_address(const SegmentMeeting&, int rank);

}  // namespace tutti
