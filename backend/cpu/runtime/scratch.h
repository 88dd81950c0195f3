// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/memory/storage.h>

#include <cstddef>
#include <cstdint>

namespace tutti {

/// Elements that a kernel works in, from the device's pool; they hold whatever was there.
template <class E> class Scratch {
 public:
  Scratch(Device device, MemoryPool& pool, std::int64_t count)
      : storage_(device, pool, static_cast<std::size_t>(count) * sizeof(E)) {}
  E* data() const { return reinterpret_cast<E*>(storage_.data()); }

 private:
  Storage storage_;
};

}  // namespace tutti
