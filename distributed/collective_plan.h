// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/stream.h>
#include <tutti/distributed/collective_call.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Part of a collective: `count` elements, combined from the sources in the order given, and written to every target.
/// One source is a copy; none stands for zeros.
struct CollectivePart {
  struct Place {
    std::size_t member = 0;   ///< of a request that takes several arrays of each member: a position among the arrays
    std::int64_t offset = 0;  ///< in elements
  };
  std::int64_t count = 0;
  std::vector<Place> sources;  ///< in the members' inputs
  std::vector<Place> targets;  ///< in the members' outputs
};

/// A collective that all devices have asked for. Arrays are contiguous and of one dtype.
struct CollectiveRequest {
  CollectiveOperation operation = CollectiveOperation::sum;
  double denominator = 1.0;    ///< divides sums
  std::vector<Array> inputs;   ///< by member, or as the parts' places number them
  std::vector<Array> outputs;  ///< likewise; no source of a part may be another part's target
  std::vector<Event> ready;    ///< earlier than these no input may be touched
  std::vector<CollectivePart> parts;
  std::vector<Device> devices{};  ///< which share the work; default: the outputs'
  std::string name{};             ///< what it is to whoever asked for it; for errors
};

/// What is to be done for calls that agree.
struct CollectivePlan {
  std::vector<CollectivePart> parts;
  std::vector<Shape> outputs;                         ///< by member
  std::vector<std::vector<std::int64_t>> received{};  ///< by member: lengths along axis 0 from each (has_parts only)
};
CollectivePlan plan_collective(std::span<const CollectiveCall> by_member, std::span<const Device>);

/// Does the elements [begin, begin + count) of one part, whoever calls: each element is combined by one thread in one
/// order.
void combine(const CollectiveRequest&, const CollectivePart&, std::int64_t begin, std::int64_t count);

}  // namespace tutti
