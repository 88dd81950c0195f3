// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tutti {

/// A member that keeps what different threads write or poll, before and behind it, from sharing a cache line. Not
/// alignas, as memory with an alignment of its own takes several times as long to get.
struct CacheLineGap {
  std::byte bytes[64];
};

}  // namespace tutti
