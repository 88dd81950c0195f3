// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/slices.h>
#include <tutti/backend/error.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti {

// Add an array to those that a kernel reads or writes. Throw SyncError naming the operation if they are too many.

/// `number`: its device's in the group; sources are added with ascending numbers.
inline void add_source(std::string_view operation, cuda_kernels::SliceTable& table, const void* data,
                       std::size_t number) {
  if (table.sources == cuda_kernels::SliceTable::kMost)
    raise<SyncError>("[{}] takes at most {} slices", operation, table.sources);
  table.source[table.sources] = data;
  table.number[table.sources++] = static_cast<std::uint32_t>(number);
  const auto sources = static_cast<std::size_t>(table.sources);
  plan_leaf({table.number, sources}, {table.joins, sources});
}

inline void add_target(std::string_view operation, cuda_kernels::SliceTable& table, void* data) {
  if (table.targets == cuda_kernels::SliceTable::kMost)
    raise<SyncError>("[{}] takes at most {} slices", operation, table.targets);
  table.target[table.targets++] = data;
}

}  // namespace tutti
