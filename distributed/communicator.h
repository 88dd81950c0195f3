// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/stream.h>
#include <tutti/distributed/collectives/collective_plan.h>
#include <tutti/distributed/collectives/collective_task.h>
#include <tutti/distributed/collectives/crew.h>
#include <tutti/distributed/collectives/member.h>
#include <tutti/distributed/collectives/sparse_reduction.h>
#include <tutti/distributed/sync_options.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

class CompressedReduction;

/// One device's part in an all-reduce.
struct AllReduceSlice {
  Array gradient;           ///< contiguous, floating; read if it contributes, always overwritten with the result
  bool contributes = true;  ///< false: stands for zeros, whatever it holds
  bool helps = true;        ///< its device's thread will come for a share of the work; false: it has left
};

/// result = (sum over contributing slices, in the tree of their devices' numbers: backend/formulas/sum_tree.h) /
/// denominator, written to every slice. All slices have one dtype and element count and lie on distinct devices. With a
/// 16-bit wire s (f32 slices only), each contribution is rounded once, s(g wire_scale), the sum runs in f32 and is
/// divided by denominator wire_scale, and the result is rounded once for its way back.
struct AllReduceRequest {
  std::vector<AllReduceSlice> slices;
  std::vector<Event> ready;  ///< earlier than these no slice may be touched; unrecorded ones count as past
  double denominator = 1.0;
  GradientWire wire = GradientWire::native;
  double wire_scale = 1.0;     ///< a power of two
  std::string parameter = {};  ///< the first of those it is for, by name; for errors
  /// The slices' devices' numbers in the group, ascending; empty: all devices of the group have a slice.
  std::vector<std::size_t> numbers = {};

  std::size_t number_of(std::size_t slice) const { return numbers.empty() ? slice : numbers[slice]; }
};

/// An engine: runs collectives between the members of one group, in the order in which they were launched as far as
/// their inputs allow. `make_communicator` (distributed/engines/make_communicator.h) chooses one by the kind of device.
/// What it launches is a task that needs the engine no more, so that an engine can be made of others: it launches their
/// tasks, each behind the events of the one before (`events_of`), and returns one task for all.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Queues the reduction and returns at once. Called by one thread at a time (the server's drain). An exception means
  /// that nothing was queued.
  virtual std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest) = 0;

  /// Whether it has that reduction. Default: it has none.
  virtual bool reduces_sparse() const noexcept { return false; }
  /// Queues, as all_reduce does, the reduction of a sparse gradient. While off it leaves the result as it is. Default:
  /// throws SyncError, for an engine that has no such reduction.
  virtual std::shared_ptr<CollectiveTask> reduce_sparse(SparseReduction);

  /// Queues, as all_reduce does, a reduction of compressed gradients (distributed/collectives/compressed_reduction.h),
  /// of which nothing may be touched before `ready`. `helping`: devices of this process whose threads come for a share
  /// of the work. An engine that does not know how throws SyncError.
  virtual std::shared_ptr<CollectiveTask> compressed_all_reduce(std::shared_ptr<CompressedReduction>,
                                                                std::vector<Event> ready, std::vector<Device> helping);

  /// Queues, as all_reduce does, a collective of the users' own or of a round, which always runs.
  virtual std::shared_ptr<CollectiveTask> collective(CollectiveRequest) = 0;

  /// A flat array of zeros for gradients of a device, in memory that suits the engine. Thread-safe. Default: the
  /// device's own.
  virtual Array gradient_memory(std::int64_t elements, DType dtype, Device device) {
    return Array::zeros({elements}, dtype, device);
  }

  /// The group has formed anew after a failure: from now on requests name these members alone, which are some of the
  /// engine's. Called like requests. Default: nothing, for an engine that needs no device that is not named.
  virtual void regroup(std::span<const Member>) {}

  /// Ends the group over all processes: tasks that wait for others fail with this reason. Thread-safe. Default:
  /// nothing, for an engine that waits for nobody outside of its process.
  virtual void abort(std::string_view) noexcept {}

  /// Threads that help with the tasks; an engine made of others gives theirs. Default: none, for an engine that works
  /// by itself.
  virtual Crew& crew();

  /// Switches reductions off and on, to measure what they cost: while off, all_reduce leaves every slice as it is and
  /// returns a FinishedTask (distributed/collectives/engine_task.h).
  void set_enabled(bool enabled) noexcept { enabled_.store(enabled, std::memory_order_relaxed); }
  bool enabled() const noexcept { return enabled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> enabled_{true};
};

}  // namespace tutti
