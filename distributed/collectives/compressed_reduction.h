// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>

#include <cstddef>
#include <vector>

namespace tutti {

/// One bucket's way through a compression: rounds of encoding on every member of the group and an all-reduce of what
/// was encoded, then decoding on every member. The engine calls the functions in this order, each member's once, and
/// different members' at the same time, on any threads; none may wait for another. Lives until the last has returned.
class CompressedReduction {
 public:
  virtual ~CompressedReduction() = default;
  virtual const std::vector<Device>& devices() const = 0;  ///< the members'
  virtual std::size_t rounds() const = 0;
  virtual void encode(std::size_t round, std::size_t member) = 0;
  /// Returns what is all-reduced after that round's encoding; asked once, before anything runs.
  virtual std::vector<AllReduceRequest> factors(std::size_t round) = 0;
  virtual void decode(std::size_t member) = 0;
};

}  // namespace tutti
