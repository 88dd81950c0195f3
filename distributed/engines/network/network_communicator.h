// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/process_members.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/engines/network/lines/line_meeting.h>
#include <tutti/distributed/engines/network/network_task.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace tutti {

/// How processes are connected, and how long they wait. The same on all processes but for the waits.
struct NetworkOptions {
  bool encrypt = true;  ///< false: for a link that nobody else reaches; who connects proves the secret all the same
  /// Size of what goes at once: reductions go in pieces of it. From 8 KiB to 64 MiB.
  std::size_t piece_bytes = std::size_t{256} << 10U;
  /// The most memory for what came from other processes and is not used yet.
  std::size_t window_bytes = std::size_t{64} << 20U;
  std::chrono::milliseconds patience = std::chrono::minutes(1);  ///< longest wait for a process
  /// Time in which somebody may say why a process has ended its part, before its own word, or the end of its
  /// connection, is the reason.
  std::chrono::milliseconds grace{200};
  std::chrono::milliseconds meeting = std::chrono::minutes(1);  ///< longest wait for all to connect
  /// Called now and then while processes connect; what it throws ends that.
  std::function<void()> look_around{};
};

/// CPU devices of several processes that need not share a host: over TCP every process gets the slices of its share of
/// the elements, sums them in the tree of the devices' numbers in the group, and gives the results to all, so that the
/// bits are those of LocalCommunicator with all devices in one process. All processes launch the same requests of each
/// sequence in the same order; each has the slices of its own devices, one at least.
///
/// Sums are made by threads that come by, as with LocalCommunicator: in each process somebody must wait for them, or
/// come by, or the others wait. A thread of the engine receives, and sends what did not go at once. Tasks fail with a
/// SyncError, on all processes and for good, when any of them fails, when requests differ between processes (naming the
/// ranks and both values), when a process does not come within `patience` or its connection ends (naming its rank), and
/// when somebody aborts: a new group then makes a new engine. The destructor finishes what was launched.
class NetworkCommunicator : public Communicator {
 public:
  /// Meets the other processes (connect_lines), whose ranks are those of the members. `members`: of the group, at their
  /// numbers, each on a CPU. Throws what connect_lines throws, and SyncError for options out of range, a rank with no
  /// device or more than kMostSharedSlices, a device that is no CPU.
  NetworkCommunicator(const NetworkMeeting&, const DataDoor&, std::span<const Member> members, NetworkOptions = {});
  /// Takes lines that something else carries; `ranks`: of all processes, ascending.
  NetworkCommunicator(GroupLines, std::vector<int> ranks, int rank, std::uint64_t epoch,
                      std::span<const Member> members, NetworkOptions = {});
  ~NetworkCommunicator() override;

  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest) override;
  bool reduces_sparse() const noexcept override { return true; }
  /// All processes launch it, also one whose devices neither contribute nor receive. Each sends its rows to all others,
  /// and sums those of all.
  std::shared_ptr<CollectiveTask> reduce_sparse(SparseReduction) override;
  std::shared_ptr<CollectiveTask> compressed_all_reduce(std::shared_ptr<CompressedReduction>, std::vector<Event> ready,
                                                        std::vector<Device> helping) override;
  /// Arrays are numbered alike by all processes; those of other processes may be undefined. The same parts for all.
  std::shared_ptr<CollectiveTask> collective(CollectiveRequest) override;
  /// SyncError unless each process still has a member.
  void regroup(std::span<const Member>) override;
  Crew& crew() override { return flight_->crew; }

  /// Ends the group: all tasks of all processes fail with this reason, whoever waits wakes. Thread-safe.
  void abort(std::string_view reason) noexcept override { flight_->lines.abort(reason); }

 private:
  std::shared_ptr<CollectiveTask> launch(const std::shared_ptr<NetworkTask>&, Sequence);

  ProcessMembers members_;
  std::array<std::uint32_t, 2> launched_{};  // number of requests, by sequence
  std::shared_ptr<NetworkFlight> flight_;
};

}  // namespace tutti
