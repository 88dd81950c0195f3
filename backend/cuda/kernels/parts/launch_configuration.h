// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/elementwise/operation.h>

#include <cstdint>

namespace tutti::cuda_kernels {

/// Threads of a block, where nothing speaks for another number.
inline constexpr unsigned kThreads = 256;

/// Threads beyond these loop: eight times what the largest devices run at once, so that the last round costs little.
inline constexpr unsigned kMostBlocks = 8 * 8 * 132;

/// Blocks for a grid-stride loop over `items`, a thread an item at a time; at least 1.
TUTTI_HOST_DEVICE constexpr unsigned blocks_for(std::int64_t items, unsigned threads = kThreads) {
  const std::int64_t blocks = (items + threads - 1) / threads;
  if (blocks < 1) return 1;
  return blocks < kMostBlocks ? static_cast<unsigned>(blocks) : kMostBlocks;
}

}  // namespace tutti::cuda_kernels
