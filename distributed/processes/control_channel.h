// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/processes/control_events.h>
#include <tutti/distributed/processes/job_secret.h>
#include <tutti/distributed/processes/launch_environment.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tutti {

struct ControlOptions {
  std::chrono::milliseconds rendezvous{60'000};  ///< time from the start until all have come; 1 ms or more
  std::chrono::milliseconds silence{2'000};      ///< time after which a peer counts as lost; 10 ms or more
  std::chrono::milliseconds heartbeat{300};  ///< time from one sign of life to the next; 1 ms or more, below `silence`
  std::array<std::byte, 32> digest{};        ///< digest of all that has to be the same in every process
};

/// The connections between the processes of a job, over which they agree: encrypted, in order, with clocks that tell
/// who is silent. Ranks other than 0 are connected to rank 0 alone; all know where each of them listens. It carries and
/// observes, and judges nobody. A connection that ended stays so: who comes again makes a new channel. All functions
/// may be called by any thread, but the destructor. Not for use in a forked child.
class ControlChannel {
 public:
  /// Waits for all ranks. Throws Error, on every rank that the reason reaches: for a field in which a process differs
  /// from rank 0, naming it, process and both values; for two processes of one rank; for ranks that did not come in
  /// time, naming those and the others; for a process that died meanwhile; for an address that is not this host's (rank
  /// 0), is a wildcard, or is no loopback address though there is no secret; for options out of range.
  ControlChannel(const LaunchPlace&, const JobSecret&, const ControlOptions& = {});
  /// Ends within a second. What was sent before goes out first, to whoever takes it in time.
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  int rank() const noexcept;
  int size() const noexcept;
  const std::vector<ControlMember>& members() const noexcept;  ///< all ranks, ascending

  static constexpr std::size_t kMostBytes = 65'000;
  /// Hands bytes over, never blocks. Nothing tells that they arrived; to a rank that is lost they go nowhere. Throws
  /// Error: for more than kMostBytes; for a rank that this one has no connection to; when 65,536 messages wait already.
  void send(int rank, std::span<const std::byte> bytes);

  /// The next event, each rank's in order; none when the deadline has passed. Throws Error when the channel's thread
  /// has failed and all events have been taken.
  std::optional<ControlEvent> receive(std::chrono::steady_clock::time_point deadline);

  /// Sets what heartbeats carry: any number that changes while work goes on. Costs an atomic store.
  void set_progress(std::uint64_t) noexcept;
  /// Clocks of every peer that is connected and not lost for good.
  std::vector<PeerClock> clocks() const;

  /// How many connections of strangers were turned away, and how many messages of members were none.
  struct Refused {
    std::uint64_t strangers = 0;
    std::uint64_t garbage = 0;
  };
  Refused refused() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
