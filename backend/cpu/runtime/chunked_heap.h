// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace tutti {

/// Blocks cut from chunks of 32 MiB that lie on huge pages, where the system has them: what is read and written in a
/// training step spans thousands of small pages, which takes a third of the step on a virtual machine. Thread-safe.
class ChunkedHeap {
 public:
  /// Sizes of blocks that it is for, in bytes: shorter ones share few pages, longer ones have huge pages of their own.
  static constexpr std::size_t kLeast = std::size_t{64} << 10U;
  static constexpr std::size_t kMost = std::size_t{4} << 20U;
  static constexpr std::size_t kChunk = std::size_t{32} << 20U;

  /// A block of at most kMost bytes, aligned to 64, its contents undefined. Null: there is no memory for another chunk.
  void* allocate(std::size_t bytes) noexcept;
  /// Gives pages that no block lies in any more back to the system, and a chunk without blocks to the C library's heap.
  /// False: the block is not of this heap.
  bool release(void* block) noexcept;

  std::size_t chunks() const;

 private:
  struct Range {
    std::size_t bytes;
    bool is_free;
  };
  struct Chunk {
    std::map<std::size_t, Range> ranges;  // offsets as keys; they cover the chunk
    std::size_t largest = kChunk;         // no free range is longer
  };

  static void* cut(Chunk&, std::byte* start, std::size_t bytes);
  void* cut_from_new_chunk(std::size_t bytes);

  mutable std::mutex mutex_;            // guards all
  std::map<std::byte*, Chunk> chunks_;  // addresses as keys; blocks that are never released keep theirs
};

}  // namespace tutti
