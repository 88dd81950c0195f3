// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace tutti {

namespace detail {
/// Memory for a small object, aligned as `operator new` does it: one that this thread gave back, or new. Throws
/// std::bad_alloc.
void* take_small_block(std::size_t bytes);
/// Takes back what `take_small_block` gave for as many bytes, on this or another thread. The calling thread keeps it,
/// up to 8 MiB in all, until it ends.
void give_small_block(void* block, std::size_t bytes) noexcept;
}  // namespace detail

/// Allocates from the blocks that a thread keeps: for what each operation makes and drops (tensors, nodes of graphs,
/// lists of axes), so that a step whose like has run before asks the heap for nothing. Memory of elements is a
/// MemoryPool's.
template <class T> struct ThreadCacheAllocator {
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  using value_type = T;

  ThreadCacheAllocator() = default;
  template <class Other> ThreadCacheAllocator(const ThreadCacheAllocator<Other>&) noexcept {}  // NOLINT: as std's

  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(detail::take_small_block(count * sizeof(T)));
  }
  void deallocate(T* first, std::size_t count) noexcept { detail::give_small_block(first, count * sizeof(T)); }

  friend bool operator==(const ThreadCacheAllocator&, const ThreadCacheAllocator&) noexcept { return true; }
};

/// A list that a call makes for itself.
template <class T> using CachedVector = std::vector<T, ThreadCacheAllocator<T>>;

/// std::make_shared from the blocks that a thread keeps.
template <class T, class... Arguments> std::shared_ptr<T> make_cached(Arguments&&... arguments) {
  return std::allocate_shared<T>(ThreadCacheAllocator<T>(), std::forward<Arguments>(arguments)...);
}

}  // namespace tutti
