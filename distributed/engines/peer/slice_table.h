// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/slices.h>
#include <tutti/backend/error.h>

#include <string_view>

namespace tutti {

// Add an array to those that a kernel reads or writes. Throw SyncError naming the operation if they are too many.

inline void add_source(std::string_view operation, cuda_kernels::SliceTable& table, const void* data) {
  if (table.sources == cuda_kernels::SliceTable::kMost)
    raise<SyncError>("[{}] takes at most {} slices", operation, table.sources);
  table.source[table.sources++] = data;
}

inline void add_target(std::string_view operation, cuda_kernels::SliceTable& table, void* data) {
  if (table.targets == cuda_kernels::SliceTable::kMost)
    raise<SyncError>("[{}] takes at most {} slices", operation, table.targets);
  table.target[table.targets++] = data;
}

}  // namespace tutti
