// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/lines/data_door.h>
#include <tutti/distributed/engines/network/lines/frame_line.h>
#include <tutti/distributed/engines/network/lines/line_handshake.h>
#include <tutti/distributed/engines/network/lines/line_watch.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

/// A meeting of processes that connect with each other.
struct NetworkMeeting {
  /// The door of each process, where the others reach it.
  struct Place {
    int rank = 0;
    std::string address;
    int port = 0;
  };
  FrameCipher::Key key{};     ///< the same for all, known to them alone, and to this run of the job
  std::uint64_t epoch = 0;    ///< number of the group, the same for all: who comes with another one is not let in
  std::vector<Place> places;  ///< doors of all processes that meet, ranks ascending
  int rank = 0;               ///< this one's
};

/// Lines to one other process, by lane; none to oneself.
using PeerLines = std::array<std::unique_ptr<FrameLine>, kLanes>;

/// Lines to all other processes, by the place of their rank, and the watch over them.
struct GroupLines {
  std::vector<PeerLines> lines;
  std::unique_ptr<LineWatch> watch;
};

/// Connects this process with all others of the meeting. Returns their lines in the order of the ranks. Only who proves
/// that it knows the key is let in; others, whatever they send or do not send, hold nobody up: they have 2 s, and 64
/// wait at most. Throws SyncError naming the ranks that have not come within `patience`, or a process whose options
/// differ, with both values, and what `look_around` throws, which is called now and then if it is there.
GroupLines connect_lines(const NetworkMeeting&, const DataDoor&, std::size_t piece_bytes, bool encrypts,
                         std::chrono::milliseconds patience, const std::function<void()>& look_around = {});

}  // namespace tutti
