// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/stream.h>
#include <tutti/distributed/collectives/collective_call.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Part of a collective: `count` elements, combined from the sources in the tree of their numbers
/// (backend/formulas/sum_tree.h), and written to every target. One source is a copy; none stands for zeros.
struct CollectivePart {
  struct Place {
    /// Number of the member; in a request that takes several arrays of each member, a position among the arrays.
    std::size_t member = 0;
    std::int64_t offset = 0;      ///< elements before it
    std::size_t number = member;  ///< the member's number in the group; those of sources ascend
  };
  std::int64_t count = 0;
  std::vector<Place> sources;  ///< places in the members' inputs
  std::vector<Place> targets;  ///< places in the members' outputs
};

/// Order in which all processes of a group launch a request: that of its sequence. Requests of different sequences may
/// be launched in any order. Gradients belong to the round.
enum class Sequence : std::uint8_t {
  round,  ///< needs of a step: reductions of gradients, buffers made equal
  users,  ///< users' collectives, which come whenever a device posts them
};

/// A collective that all devices have asked for. Arrays are contiguous and of one dtype.
struct CollectiveRequest {
  CollectiveOperation operation = CollectiveOperation::sum;
  double denominator = 1.0;    ///< divides sums
  std::vector<Array> inputs;   ///< one per member, or as the parts' places number them
  std::vector<Array> outputs;  ///< numbered as the inputs; no source of a part may be another part's target
  std::vector<Event> ready;    ///< earlier than these no input may be touched
  std::vector<CollectivePart> parts;
  std::vector<Device> devices{};  ///< those of this process that share the work; default: the outputs'
  std::string name{};             ///< the collective's name for whoever asked for it; for errors
  Sequence sequence = Sequence::users;
  std::optional<DType> dtype{};  ///< type of the arrays, where this process may have none of them
};

/// The work to be done for calls that agree.
struct CollectivePlan {
  std::vector<CollectivePart> parts;
  std::vector<Shape> outputs;                         ///< shape of each member's output
  std::vector<std::vector<std::int64_t>> received{};  ///< each member's lengths along axis 0 from each (has_parts only)
};
CollectivePlan plan_collective(std::span<const CollectiveCall> by_member, std::span<const Member>);

/// Does the elements [begin, begin + count) of one part, whoever calls: each element is combined by one thread in one
/// order.
void combine(const CollectiveRequest&, const CollectivePart&, std::int64_t begin, std::int64_t count);

}  // namespace tutti
