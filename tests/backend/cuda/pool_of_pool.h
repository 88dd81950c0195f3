// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/memory/memory_pool.h>

#include <cstddef>

namespace tutti::testing {

/// A pool that takes its memory from another one.
class PoolOfPool final : public RawMemory {
 public:
  PoolOfPool(Device device, MemoryPool& from) : pool(device, *this), from_(from) {}
  void* allocate(std::size_t bytes) override { return from_.allocate(bytes); }
  void release(void* data, std::size_t bytes) noexcept override { from_.release(data, bytes); }

  MemoryPool pool;

 private:
  MemoryPool& from_;
};

}  // namespace tutti::testing
