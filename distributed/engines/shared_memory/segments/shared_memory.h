// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/shared_memory/segments/shared_segment.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tutti {

/// How long memory is held: by a task, or by what all tasks of many steps reduce, which is worth huge pages.
enum class Held : std::uint8_t { briefly, long_term };

/// The reserved addresses of a segment, handed out with memory piece by piece: what lies there is reduced in place.
/// Thread-safe.
class SharedMemory {
 public:
  /// Takes those from `begin` on, of a segment that was made here.
  SharedMemory(std::shared_ptr<const SharedSegment>, std::size_t begin);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Memory of zeros that is free again when nobody holds it, aligned to cache lines; that of some blocks is kept for
  /// the next of their size. Keeps the segment, also after this object. Null: there are no such many addresses in a
  /// row. Throws OutOfMemoryError when memory is used up.
  std::shared_ptr<std::byte> allocate(std::size_t bytes, Held);
  std::size_t bytes() const noexcept;  ///< number of all addresses
  std::size_t left() const;            ///< number of those that are free

 private:
  struct Gaps;
  std::shared_ptr<Gaps> gaps_;  // shared with all who hold memory
};

}  // namespace tutti
