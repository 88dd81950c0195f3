// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/memory/memory_pool.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tutti {

/// A block of a device's memory, returned to its pool with the last reference. Arrays share it through
/// `std::shared_ptr`; work queued on a stream holds a reference until it has run. Or somebody else's memory, whose
/// owner is let go then.
class Storage {
 public:
  Storage(Device, MemoryPool&, std::size_t bytes);
  Storage(Device, void* data, std::size_t bytes, std::shared_ptr<const void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device device() const noexcept { return device_; }
  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

  /// Grows with every write that others may see: into an array that somebody else may have read or saved, not into one
  /// that is being made. Counted where the write is queued.
  std::uint32_t version() const noexcept { return version_.load(std::memory_order_relaxed); }
  const char* last_writer() const noexcept { return writer_.load(std::memory_order_relaxed); }
  /// `operation`: a literal.
  void count_write(const char* operation) noexcept {
    writer_.store(operation, std::memory_order_relaxed);
    version_.store(version() + 1, std::memory_order_relaxed);  // two writers at once are a race in any case
  }

 private:
  Device device_;
  MemoryPool* pool_ = nullptr;         // null: the memory is the owner's
  std::shared_ptr<const void> owner_;  // owner of the memory, or of the pool
  std::byte* data_;
  std::size_t bytes_;
  std::atomic<std::uint32_t> version_{0};
  std::atomic<const char*> writer_{"nothing"};
};

}  // namespace tutti
