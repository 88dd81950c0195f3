// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tutti {

// Events that a ControlChannel tells its user. All of it is observed, nothing is judged.

/// Bytes that another rank sent.
struct ControlMessage {
  int from = 0;
  std::vector<std::byte> bytes;
};

/// A rank from which nothing comes any more. After disconnected and overflow that is for good, unless it is proven dead
/// later; silence may end (PeerHeard).
struct PeerLost {
  enum class Reason : std::uint8_t {
    silent,        ///< nothing came for longer than the deadline
    disconnected,  ///< the connection ended, which proves nothing about the process
    overflow,      ///< too much waited for it, or came from it: messages would be missing
  };
  int rank = 0;
  Reason reason = Reason::silent;
  std::chrono::steady_clock::time_point since;  ///< time when it was last heard
};

/// A rank that was lost by silence, and has been heard again.
struct PeerHeard {
  int rank = 0;
  std::chrono::nanoseconds silent_for{};
};

/// A rank whose process has ended: the kernel of this host says so. The last event of that rank.
struct PeerDied {
  int rank = 0;
};

/// This process itself stood still for so long that its deadlines say nothing about others: no clock counts that time.
struct OwnPause {
  std::chrono::nanoseconds length{};
};

using ControlEvent = std::variant<ControlMessage, PeerLost, PeerHeard, PeerDied, OwnPause>;

/// A rank's two clocks, as they stood when the channel's thread last looked, at most a quarter of a second ago.
struct PeerClock {
  int rank = 0;
  std::chrono::nanoseconds silent_for{};          ///< time since anything came from it
  std::uint64_t progress = 0;                     ///< number that it last told
  std::chrono::nanoseconds progress_still_for{};  ///< time since it told another number
  bool watched = false;                           ///< its death would be proven (PeerDied)
};

/// Another process of the job, or this one.
struct ControlMember {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  std::string address;  ///< its door's, "host:port"
};

}  // namespace tutti
