// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tutti {

/// Bytes, all of them as handed out (rounded up to the pool's size classes).
struct MemoryStatistics {
  std::size_t in_use = 0;       ///< held by live storages
  std::size_t reserved = 0;     ///< taken from the system: in use and cached
  std::size_t peak_in_use = 0;  ///< most in use since construction or the last `reset_peak`
  std::size_t allocations = 0;  ///< calls of `allocate`
  std::size_t cache_hits = 0;   ///< those served without asking the system
};

/// The source of a pool's memory.
class RawMemory {
 public:
  virtual ~RawMemory() = default;
  virtual void* allocate(std::size_t bytes) = 0;  ///< aligned to 64 bytes at least; nullptr when there is none
  virtual void release(void* data, std::size_t bytes) noexcept = 0;
};

/// Caching allocator of one device. Freed blocks are kept by size class and handed out again, most recent first.
/// Classes are the multiples of 64 up to 1 KiB, then four to each power of two, beyond 64 KiB 32: less than 64 bytes or
/// a fifth of a block are unused, of a large one 3 %. Thread-safe. A block is free the moment `release` is called:
/// whoever releases guarantees that no queued work uses it.
///
/// A pool that keeps nothing takes exactly what it is asked for from the system and gives it back at once, so that
/// tools which watch memory (compute-sanitizer, ASan) see each block's ends and its end of life.
class MemoryPool {
 public:
  enum class Keeps : bool { nothing, freed_blocks };

  MemoryPool(Device, RawMemory&, Keeps = Keeps::freed_blocks);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// Returns at least `bytes` bytes, 64-byte aligned; nullptr for 0. Empties the cache before it gives up and throws
  /// `OutOfMemoryError`, which says what was asked for, in use, reserved and allowed.
  void* allocate(std::size_t bytes);
  void release(void* data, std::size_t bytes) noexcept;  ///< `bytes` as passed to `allocate`

  /// Storages in this pool keep `owner` alive, which owns the pool. Before the first `allocate`.
  void keep_by(std::weak_ptr<const void> owner) { owner_ = std::move(owner); }
  std::shared_ptr<const void> owner() const noexcept { return owner_.lock(); }  ///< null: it outlives all storages

  void set_limit(std::size_t bytes);  ///< most that may be in use; default: no limit
  void trim() noexcept;               ///< gives all cached blocks back to the system
  MemoryStatistics statistics() const;
  void reset_peak();

 private:
  static constexpr std::size_t kClasses = 1448;  // up to 2^60 bytes

  void* take(std::size_t size_class, std::size_t block);
  std::size_t block_for(std::size_t bytes) const;
  void trim_locked() noexcept;
  [[noreturn]] void raise_out_of_memory(std::size_t bytes) const;

  Device device_;
  RawMemory& raw_;
  Keeps keeps_;
  std::weak_ptr<const void> owner_;
  mutable std::mutex mutex_;  // guards everything below
  std::array<std::vector<void*>, kClasses> free_;
  MemoryStatistics statistics_;
  std::size_t limit_ = std::numeric_limits<std::size_t>::max();
};

/// Tells what the pools of devices keep: nothing with TUTTI_POOL=off, freed blocks with on, or without it. Read by each
/// backend when it is made.
MemoryPool::Keeps kept_by_pools();

}  // namespace tutti
