// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

/// One bucket's way through a compression: rounds of encoding on every member of this process and an all-reduce, over
/// the members of all processes, of what was encoded, then decoding on every member. The engine calls the functions in
/// this order, each member's once, and different members' at the same time, on any threads; none may wait for another.
/// Lives until the last has returned.
class CompressedReduction {
 public:
  virtual ~CompressedReduction() = default;
  virtual const std::vector<Device>& devices() const = 0;  ///< the members' of this process
  virtual std::size_t rounds() const = 0;
  virtual void encode(std::size_t round, std::size_t member) = 0;
  /// Returns what is all-reduced after that round's encoding, each with a slice of this process; asked once, before
  /// anything runs. All processes return the same requests in the same order, with their own devices' slices.
  virtual std::vector<AllReduceRequest> factors(std::size_t round) = 0;
  virtual void decode(std::size_t member) = 0;
};

/// Queues it on an engine between processes, as the crew's work and all-reduces by turns, all at once and each behind
/// what it needs: all processes number their all-reduces alike. An exception ends the group (Communicator::abort), with
/// its text and this process's rank. The other arguments are those of Communicator::compressed_all_reduce.
std::shared_ptr<CollectiveTask> launch_in_turns(Communicator&, int rank, std::shared_ptr<CompressedReduction>,
                                                std::vector<Event> ready, std::span<const Device> helping);

}  // namespace tutti
