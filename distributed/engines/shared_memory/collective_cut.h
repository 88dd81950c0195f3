// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/collective_plan.h>
#include <tutti/distributed/collectives/member.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tutti {

/// A collective cut so that what each process gives to a piece fits its staging memory. Depends on what all processes
/// know alike: all come to the same one.
struct CollectiveCut {
  /// Some elements of one of the request's parts.
  struct Range {
    std::size_t part = 0;
    std::int64_t begin = 0;
    std::int64_t count = 0;
    std::vector<std::size_t> sources;  ///< offset of each of the part's sources in its process's staging memory, bytes
  };

  /// `process_of`: place of the process that has a member, by its number. `element`, `piece_bytes`: bytes. Throws
  /// SyncError if one part has more sources in a process than its staging memory has cache lines.
  CollectiveCut(std::span<const CollectivePart>, std::size_t processes,
                const std::function<std::size_t(std::size_t number)>& process_of, std::size_t element,
                std::size_t piece_bytes);

  std::vector<std::vector<Range>> pieces;  ///< one or more; ranges of no elements are left out
};

/// Says whether two processes mean the same parts.
std::uint64_t hash_of(CollectiveOperation, std::span<const CollectivePart>);

}  // namespace tutti
