// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/memory_pool.h>

#include <cstddef>

namespace tutti {

/// A block of a device's memory, returned to its pool with the last reference. Arrays share it through
/// `std::shared_ptr`; work queued on a stream holds a reference until it has run.
class Storage {
 public:
  Storage(Device, MemoryPool&, std::size_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device device() const noexcept { return device_; }
  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  Device device_;
  MemoryPool& pool_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace tutti
