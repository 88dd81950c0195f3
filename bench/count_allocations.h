// SPDX-License-Identifier: Apache-2.0
#pragma once

// Counts what a program takes from the heap, for its benchmarks: include it in one source file of the program. It
// replaces operator new and delete of the whole process, as the language allows a program to.

#include <tutti/bench.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace tutti::bench::counting {

inline std::atomic<std::int64_t> allocations = 0;
inline const bool is_counting = (set_heap_counter(&allocations), true);

inline void* allocate_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t some = bytes == 0 ? 1 : bytes;
  // aligned_alloc wants whole multiples.
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(some)
             : std::aligned_alloc(alignment, (some + alignment - 1) / alignment * alignment);
}

inline void* allocate(std::size_t bytes, std::size_t alignment) {
  void* const data = allocate_or_null(bytes, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace tutti::bench::counting

void* operator new(std::size_t bytes) { return tutti::bench::counting::allocate(bytes, 1); }
void* operator new[](std::size_t bytes) { return tutti::bench::counting::allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return tutti::bench::counting::allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return tutti::bench::counting::allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return tutti::bench::counting::allocate_or_null(bytes, 1);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return tutti::bench::counting::allocate_or_null(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return tutti::bench::counting::allocate_or_null(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return tutti::bench::counting::allocate_or_null(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete[](void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }
