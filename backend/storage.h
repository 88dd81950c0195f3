// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/memory_pool.h>

#include <cstddef>
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

 private:
  Device device_;
  MemoryPool* pool_ = nullptr;  // null: the memory is the owner's
  std::shared_ptr<const void> owner_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace tutti
