// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/processes/control_events.h>

#include <chrono>
#include <map>
#include <optional>
#include <vector>

namespace tutti::control {

/// Clocks of each peer: when it was last heard, and since when its progress stands still. Pure: time is given.
class PeerClocks {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  explicit PeerClocks(Duration deadline) : deadline_(deadline) {}

  void begin(int rank, Time now) { peers_[rank] = {now, now}; }
  void end(int rank) { peers_.erase(rank); }  ///< no more is said of it
  /// How long it was silent, if that had been told as a loss.
  std::optional<Duration> heard(int rank, Time now);
  void progress(int rank, std::uint64_t progress, Time now);
  /// Those that have just become silent for longer than the deadline, each with when it was last heard.
  std::vector<PeerLost> silent(Time now);
  Time last_heard(int rank) const { return peers_.at(rank).heard; }  ///< needs a rank that has begun
  void skip(Duration pause, Time now);                               ///< nobody's clock counts the pause
  std::vector<PeerClock> read(Time now) const;

 private:
  struct Peer {
    Time heard;
    Time progressed;
    std::uint64_t progress = 0;
    bool silent = false;
  };
  Duration deadline_;
  std::map<int, Peer> peers_;
};

}  // namespace tutti::control
