// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

namespace tutti {

/// The free memory of a segment, handed out piece by piece: what lies there is reduced in place. Thread-safe.
class SharedMemory {
 public:
  /// Memory of `bytes` at `begin`, which `owner` keeps.
  SharedMemory(std::byte* begin, std::size_t bytes, std::shared_ptr<const void> owner);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Memory that is free again when nobody holds it, aligned to cache lines; contents undefined. Keeps the owner, also
  /// after this object. Throws OutOfMemoryError saying what is left.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

 private:
  struct Gaps;
  std::shared_ptr<Gaps> gaps_;  // shared with all who hold memory
};

}  // namespace tutti
