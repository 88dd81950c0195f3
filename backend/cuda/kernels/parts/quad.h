// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tutti::cuda_kernels {

/// Four neighbours in memory, read and written 16 bytes at a time.
template <class T> struct alignas(16) Quad {
  static constexpr std::int64_t kLength = 4;
  T at[kLength];
};

/// True if lines of `length` elements, one behind the other from `data` on, are made of whole quads.
inline bool lies_in_quads(const void* data, std::int64_t length) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && length % 4 == 0;
}

}  // namespace tutti::cuda_kernels
