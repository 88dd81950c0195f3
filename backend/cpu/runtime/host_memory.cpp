// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/runtime/host_memory.h>

#include <tutti/backend/cpu/runtime/huge_pages.h>
#include <tutti/backend/memory/sanitized.h>
#include <tutti/backend/raise.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace tutti {
namespace {

constexpr std::size_t kAlignment = 64;

void* heap_block(std::size_t bytes) noexcept {
  void* data = nullptr;
  return posix_memalign(&data, kAlignment, bytes) == 0 ? data : nullptr;
}

// `allocate` is declared to give what is aligned, which is not believed.
__attribute__((no_sanitize("alignment"))) void* block_of(std::pmr::memory_resource& resource, std::size_t bytes,
                                                         Device device) {
  void* const volatile given = resource.allocate(bytes, kAlignment);
  void* const data = given;
  if (reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0) return data;
  resource.deallocate(data, bytes, kAlignment);
  raise("[set_memory_resource] {}: the resource gave memory that is not aligned to {} bytes", to_string(device),
        kAlignment);
}

}  // namespace

HostMemory::HostMemory(Device device, MemoryPool::Keeps keeps)
    : device_(device), exact_(keeps == MemoryPool::Keeps::nothing) {}

void* HostMemory::allocate(std::size_t bytes) {
  std::pmr::memory_resource* resource = nullptr;
  {
    const std::lock_guard lock(mutex_);
    held_ += bytes;  // before the resource is asked, so that it stays meanwhile
    resource = resource_.get();
  }
  void* data = nullptr;
  try {
    data = resource == nullptr ? own_block(bytes) : block_of(*resource, bytes, device_);
  } catch (const std::bad_alloc&) {  // the pool says what was asked for
  } catch (...) {
    uncount(bytes);
    throw;
  }
  if (data == nullptr) uncount(bytes);
  return data;
}

void HostMemory::release(void* data, std::size_t bytes) noexcept {
  std::pmr::memory_resource* resource = nullptr;
  {
    const std::lock_guard lock(mutex_);
    resource = resource_.get();
  }
  if (resource != nullptr)
    resource->deallocate(data, bytes, kAlignment);
  else if (!chunks_.release(data))
    std::free(data);
  uncount(bytes);
}

void* HostMemory::own_block(std::size_t bytes) noexcept {
  if (exact_ || bytes < ChunkedHeap::kLeast) return heap_block(bytes);
  if (bytes >= ChunkedHeap::kMost) return memory_on_huge_pages(bytes);
  if (kIsSanitized) return heap_block(bytes);
  void* const block = chunks_.allocate(bytes);
  return block != nullptr ? block : heap_block(bytes);
}

void HostMemory::take_from(std::shared_ptr<std::pmr::memory_resource> resource) {
  const std::lock_guard lock(mutex_);
  if (held_ > 0)
    raise("[set_memory_resource] {} holds {} bytes, of arrays or of work that is queued: set its resource before",
          to_string(device_), held_);
  resource_.swap(resource);  // the one before ends behind the lock
}

void HostMemory::uncount(std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  held_ -= bytes;
}

}  // namespace tutti
