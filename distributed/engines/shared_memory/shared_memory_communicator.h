// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/process_members.h>
#include <tutti/distributed/communicator.h>
#include <tutti/distributed/engines/shared_memory/ring_task.h>
#include <tutti/distributed/engines/shared_memory/segments/segment_exchange.h>
#include <tutti/distributed/engines/shared_memory/segments/segment_words.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// Sizes of the memory that a process shares, and how long it waits. The same on all processes but for
/// `array_bytes`.
struct SharedMemoryOptions {
  /// Staging memory for one piece of a reduction; there are RingNumber::kSlots of them. Larger reductions go in
  /// several pieces. From 8 KiB on, rounded up to cache lines.
  std::size_t piece_bytes = std::size_t{2} << 20U;
  std::size_t array_bytes = 0;  ///< most that arrays in shared memory take; memory is taken when they are made
  std::chrono::milliseconds patience = std::chrono::minutes(1);  ///< longest wait for a process
  std::chrono::milliseconds meeting = std::chrono::minutes(1);   ///< longest wait for all to exchange their memory
  /// Whether waits spin, as cores are free meanwhile. None: where this process may use one for each member.
  std::optional<bool> spins = std::nullopt;
  /// Called now and then during that; what it throws ends it.
  std::function<void()> look_around{};
};

/// CPU devices of several processes of one host, each of which maps the memory of all: every process sums a share of
/// the elements over the slices of all devices, in the tree of their numbers in the group, so that the bits are those
/// of LocalCommunicator with all devices in one process. All processes launch the same requests, those of a sequence in
/// the same order; each has the slices of its own devices, one at least. Arrays of `shared_array` are reduced in place,
/// others are copied to shared memory and back.
///
/// Reductions are worked on by threads that come by, as with LocalCommunicator: in each process somebody must wait for
/// them, or come by, or the others wait. Tasks fail with a SyncError, on all processes and for good, when any of them
/// fails, when requests differ between processes (naming the ranks and both values), when a process does not come
/// within `patience` (naming its rank), and when somebody aborts: a new group then makes a new engine, with new memory
/// and another epoch. The destructor finishes what was launched.
class SharedMemoryCommunicator : public Communicator {
 public:
  /// Meets the other processes (exchange_segments). `members`: of the group, at their numbers, each on a CPU; the ranks
  /// among them meet under the name in the epoch. Throws what exchange_segments throws, and SyncError for a rank with
  /// no device or more than kMostSharedSlices, for a device that is no CPU.
  static std::unique_ptr<SharedMemoryCommunicator> connect(const std::string& name, std::uint64_t epoch,
                                                           std::span<const Member> members, int rank,
                                                           SharedMemoryOptions = {});

  /// `segments`: by rank, ascending; the own one was made with `make_segment`. For tests whose ranks are threads.
  SharedMemoryCommunicator(std::vector<std::shared_ptr<SharedSegment>> segments, std::uint64_t epoch,
                           std::span<const Member> members, int rank, SharedMemoryOptions);
  static std::shared_ptr<SharedSegment> make_segment(std::uint64_t epoch, int rank, const SharedMemoryOptions&);
  ~SharedMemoryCommunicator() override;

  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest) override;
  bool reduces_sparse() const noexcept override { return true; }
  /// All processes launch it, also one whose devices neither contribute nor receive.
  std::shared_ptr<CollectiveTask> reduce_sparse(SparseReduction) override;
  std::shared_ptr<CollectiveTask> compressed_all_reduce(std::shared_ptr<CompressedReduction>, std::vector<Event> ready,
                                                        std::vector<Device> helping) override;
  /// Arrays are numbered alike by all processes; those of other processes may be undefined. The same parts for all.
  std::shared_ptr<CollectiveTask> collective(CollectiveRequest) override;
  /// SyncError unless each process still has a member.
  void regroup(std::span<const Member>) override;
  Crew& crew() override { return flight_->crew; }

  /// An array of zeros in shared memory, that all_reduce works on where it is. Throws OutOfMemoryError when
  /// `array_bytes` are handed out, or memory is used up. Thread-safe.
  Array shared_array(const Shape&, DType, Device);
  /// A shared array; a private one when `array_bytes` are handed out.
  Array gradient_memory(std::int64_t elements, DType, Device) override;

  /// Words of all processes in the engine's memory, by rank. The one such object of this process.
  std::shared_ptr<SegmentWords> words() const;

  /// Ends the group: all tasks of all processes fail with this reason, whoever waits wakes. Thread-safe.
  void abort(std::string_view reason) noexcept override { flight_->ring.abort(reason); }

 private:
  ProcessMembers members_;
  RingNumber next_in_round_ = RingNumber::first(Sequence::round);
  RingNumber next_of_users_ = RingNumber::first(Sequence::users);
  std::shared_ptr<SharedFlight> flight_;
};

}  // namespace tutti
