// SPDX-License-Identifier: Apache-2.0
#pragma once

// How reductions on CPUs are cut into chunks, and for whom.

#include <tutti/distributed/communicator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti {

// Lengths in elements. The largest is small enough for each core's L2 with many devices; the smallest takes about as
// long to sum as handing it to another core.
constexpr std::int64_t kLargestChunk = 16 * 1024;
constexpr std::int64_t kSmallestChunk = 1024;

/// Elements of a chunk: as many equal chunks for each device as the largest allows.
inline std::int64_t chunk_size(std::int64_t elements, std::size_t devices) {
  constexpr std::int64_t kLine = 16;  // elements: a cache line of f32
  const auto shares = static_cast<std::int64_t>(devices);
  const std::int64_t rounds = (elements + shares * kLargestChunk - 1) / (shares * kLargestChunk);
  const std::int64_t chunks = std::max<std::int64_t>(1, rounds * shares);
  const std::int64_t even = (elements + chunks - 1) / chunks;
  return std::max(kSmallestChunk, (even + kLine - 1) / kLine * kLine);
}

/// Number of chunks of that size, at least one.
inline std::int64_t chunk_count(std::int64_t elements, std::int64_t size) {
  return std::max<std::int64_t>(1, (elements + size - 1) / size);
}

/// The devices whose threads come for a share of the request: at least one.
inline std::vector<Device> helping_devices(const AllReduceRequest& request) {
  std::vector<Device> devices;
  devices.reserve(request.slices.size());
  for (const AllReduceSlice& slice : request.slices)
    if (slice.helps) devices.push_back(slice.gradient.device());
  if (devices.empty()) devices.push_back(request.slices.front().gradient.device());
  return devices;
}

}  // namespace tutti
