// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/network_communicator.h>
#include <tutti/tests/distributed/engines/shared_memory/rank_group.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tutti::testing {

/// Small pieces, so that many reductions have several and wait for each other, and a bounded wait.
NetworkOptions small_frames(bool encrypt = true);

/// Ranks of a group that are threads, each with an engine of its own, connected over the loopback interface.
struct NetworkGroup {
  explicit NetworkGroup(std::vector<std::size_t> devices_by_rank, NetworkOptions = small_frames());

  std::size_t first_of(std::size_t rank) const;  ///< number of the rank's first device
  std::size_t world() const { return members.size(); }

  /// Runs `work(rank, communicator)` on a thread for each rank; returns what each threw ("" for nothing).
  std::vector<std::string> run(const std::function<void(std::size_t, NetworkCommunicator&)>& work);
  /// The same; rethrows the first rank's error to the test.
  void run_well(const std::function<void(std::size_t, NetworkCommunicator&)>& work);

  std::vector<std::size_t> devices;  ///< number of each rank's
  NetworkOptions options;
  std::vector<Member> members;
  std::string address = "127.0.0.1";
  std::function<void(std::vector<NetworkMeeting::Place>&)> change_places = {};  ///< what others are told of the doors
  std::function<void(std::size_t rank, NetworkMeeting&, NetworkOptions&)> change_rank = {};
};

/// The key of a test's run.
FrameCipher::Key key_of(std::uint8_t text);

}  // namespace tutti::testing
