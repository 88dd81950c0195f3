// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/sparse_reduction.h>
#include <tutti/distributed/communicator.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti {

class NcclGroup;
class NcclStreams;
class NcclTask;

// How requests become NCCL calls. Called on the communicator's thread; each queues its work on the communication
// streams behind the request's inputs, and gives the task what it uses and where it is done.

/// Gradients of f32 and f64 are NCCL's sum, whose order is its own: every device of the group takes part, and one
/// without a slice sends zeros, and what it receives is dropped. Those of 16 bits, and f32 with a 16-bit wire, are
/// summed by `sum_narrow`, among the devices with slices, in their order: to the bit what CPU devices get.
void launch_all_reduce(const AllReduceRequest&, NcclGroup&, NcclTask&);

/// Gives each receiver the contributions' rows, one after the other and divided, not yet coalesced, as the engine for
/// devices that reach each other's memory does. Throws SyncError in a group of several processes.
void launch_sparse(const SparseReduction&, NcclGroup&, NcclTask&);

/// Carries out the request. In a group of several processes it numbers its arrays by rank; those of other processes are
/// undefined. Parts that sum all members' inputs are NCCL's own collectives, or `sum_narrow`. Others (copies, sums of
/// some, and max and min, where NCCL loses NaN) are sent to the targets' devices, and combined there.
void launch_collective(const CollectiveRequest&, NcclGroup&, NcclTask&);

/// Arrays of bf16 or f16, one for each rank that takes part, to be replaced by sum / denominator. NCCL would round
/// after every addition.
struct NarrowSum {
  DType dtype;
  std::int64_t count;
  double denominator;
  std::vector<std::byte*> values{};         ///< indexed by place in this process; null: the rank takes no part
  std::vector<std::size_t> ranks{};         ///< those that take part
  std::vector<std::size_t> contributors{};  ///< ranks that contribute, in the order of their numbers
  std::vector<std::size_t> numbers{};       ///< the contributors' numbers in the group, for the tree of their sum
};

/// Each rank receives the contributors' numbers for its share of the elements, sums them in f32, rounds once, and sends
/// the results to all: the traffic of a ring, and the same bits however it is cut. Throws SyncError for more than 64
/// contributors.
void sum_narrow(const NarrowSum&, const NcclStreams&, NcclTask&);

}  // namespace tutti
