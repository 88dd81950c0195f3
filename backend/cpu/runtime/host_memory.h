// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/runtime/chunked_heap.h>
#include <tutti/backend/memory/memory_pool.h>

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <mutex>

namespace tutti {

/// The source of the blocks of one CPU device's pool: the C library's heap, large ones on huge pages, or a resource of
/// the program's own (backend/memory_resource.h). Thread-safe.
class HostMemory final : public RawMemory {
 public:
  HostMemory(Device, MemoryPool::Keeps);

  /// Throws what the resource throws but for `std::bad_alloc`, and `Error` for memory that is not aligned.
  void* allocate(std::size_t bytes) override;
  void release(void* data, std::size_t bytes) noexcept override;

  /// Takes from `resource` from now on; null: from the heap. Throws `Error` while blocks are out.
  void take_from(std::shared_ptr<std::pmr::memory_resource> resource);

 private:
  void* own_block(std::size_t bytes) noexcept;
  void uncount(std::size_t bytes) noexcept;

  Device device_;
  bool exact_;
  std::mutex mutex_;      // guards the rest: a pool that keeps nothing gives back on several threads at a time
  std::size_t held_ = 0;  // bytes that are out; as long as there are any, the resource stays
  std::shared_ptr<std::pmr::memory_resource> resource_;
  ChunkedHeap chunks_;  // has a mutex of its own
};

}  // namespace tutti
