// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/local/local_crew.h>
#include <tutti/distributed/engines/local/staged_task.h>
#include <tutti/distributed/engines/shared_memory/segments/segment_ring.h>
#include <tutti/distributed/engines/shared_memory/segments/shared_memory.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace tutti {

/// Parts of the engine that its tasks share: the processes' meeting place, and this one's threads.
struct SharedFlight {
  SegmentRing ring;
  SharedMemory memory;  ///< addresses for arrays of this process
  LocalCrew crew;
};

/// A collective between processes, in pieces that have a number of the ring each. A piece has four stages:
///
/// 1. once its slot is free: inputs are copied into the slot's staging memory, where they do not lie in shared memory;
///    then this process has arrived;
/// 2. once all have arrived: what they announced is looked up and compared;
/// 3. this process's share of the work; then it is done;
/// 4. once all are done: results are copied back from the staging memory, and the slot is released.
///
/// The next piece arrives, and the last one's results are waited for, beside the work on a piece: so processes need not
/// come to the end of each piece at one time.
///
/// A failure in any of them ends the group (SegmentRing::abort): others wait for this process. Whoever waits at a gate
/// helps with other tasks meanwhile, or processes that wait for different ones would wait for ever.
class RingTask : public StagedTask {
 protected:
  static constexpr std::size_t kSteps = 4;

  /// `chunks`: of each stage of each piece. `first`: number of the first piece.
  RingTask(std::shared_ptr<SharedFlight>, RingNumber first, std::vector<Event> inputs, std::span<const Device>,
           std::span<const std::int64_t> chunks);

  virtual void fill(std::size_t piece, std::int64_t chunk) = 0;
  virtual void announce(std::size_t piece, Announcement&) noexcept = 0;
  virtual void look_up(std::size_t piece) = 0;
  virtual void combine(std::size_t piece, std::int64_t chunk) = 0;
  virtual void take_back(std::size_t piece, std::int64_t chunk) = 0;
  void drop_chunks() noexcept override;

  SegmentRing& ring() const { return flight_->ring; }  ///< valid in chunks: while one runs nothing is dropped
  SharedMemory& shared_memory() const { return flight_->memory; }  ///< valid as the ring is
  RingNumber number(std::size_t piece) const { return first_ + piece; }
  /// Throws SyncError, naming ranks and values, unless all processes announced the same for the piece.
  void check_agreement(std::size_t piece) const;

 private:
  void run_chunk(std::size_t stage, std::int64_t chunk) final;
  bool gate_open(std::size_t stage) const final;
  void wait_for_gate(std::size_t stage) noexcept final;
  void stage_ended(std::size_t stage, const std::exception_ptr&) noexcept final;
  std::shared_ptr<SharedFlight> flight() const;

  /// A stage of a piece.
  struct Stage {
    std::size_t piece;
    std::size_t step;
  };
  static std::vector<Stage> order_of(std::size_t pieces);
  static std::vector<std::int64_t> in_order(std::span<const std::int64_t> chunks);

  const RingNumber first_;
  const std::vector<Stage> order_;            // indexed by the task's stages
  mutable std::atomic<std::size_t> open_{0};  // stages below it are known to be open
  mutable std::mutex mutex_;                  // guards the pointer: reports keep finished tasks, and ask them
  std::shared_ptr<SharedFlight> flight_;      // null: finished
};

}  // namespace tutti
