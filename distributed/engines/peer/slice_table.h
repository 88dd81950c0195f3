// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/slices.h>
#include <tutti/backend/raise.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

// Add an array to those that a kernel reads or writes. Throw SyncError naming the operation if they are too many.

/// `number`: its device's in the group. Throws SyncError unless it is above those before it.
inline void add_source(std::string_view operation, cuda_kernels::SliceTable& table, const void* data,
                       std::size_t number) {
  if (table.sources == cuda_kernels::SliceTable::kMost)
    raise<SyncError>("[{}] takes at most {} slices", operation, table.sources);
  const std::int32_t last = table.sources - 1;
  if (number >= kMostLeaves || (last >= 0 && number <= table.number[last]))
    raise<SyncError>("[{}] devices' numbers ascend and are below {}: {} stands behind {}", operation, kMostLeaves,
                     number, last < 0 ? std::string("nothing") : std::to_string(table.number[last]));
  table.source[table.sources] = data;
  table.number[table.sources++] = static_cast<std::uint32_t>(number);
  const auto sources = static_cast<std::size_t>(table.sources);
  plan_leaf({table.number, sources}, {table.joins, sources});
  table.in_line = table.in_line && (last < 1 || table.joins[last] > 0);
}

inline void add_target(std::string_view operation, cuda_kernels::SliceTable& table, void* data) {
  if (table.targets == cuda_kernels::SliceTable::kMost)
    raise<SyncError>("[{}] takes at most {} slices", operation, table.targets);
  table.target[table.targets++] = data;
}

}  // namespace tutti
