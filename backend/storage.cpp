// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/storage.h>

namespace tutti {

Storage::Storage(Device device, MemoryPool& pool, std::size_t bytes)
    : device_(device), pool_(pool), data_(static_cast<std::byte*>(pool.allocate(bytes))), bytes_(bytes) {}

Storage::~Storage() { pool_.release(data_, bytes_); }

}  // namespace tutti
