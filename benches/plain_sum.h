// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tutti::bench {

/// The peer of an all-reduce between two threads: each averages its half of two buffers, in place, into both. The
/// caller puts a barrier before and behind.
inline void average_half(float* __restrict a, float* __restrict b, std::size_t count, std::size_t half) {
  const std::size_t begin = half == 0 ? 0 : count / 2;
  const std::size_t end = half == 0 ? count / 2 : count;
  for (std::size_t i = begin; i < end; ++i) a[i] = b[i] = (a[i] + b[i]) * 0.5F;
}

}  // namespace tutti::bench
