// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/memory/storage.h>

#include <tutti/backend/registry.h>

namespace tutti {
namespace {

/// Pools hand memory out again in the order of the streams; a foreign owner knows nothing of these.
void finish_work(Device device) noexcept {
  try {
    Backend& backend = backend_for(device);
    backend.compute_stream(device).record().wait();
    backend.communication_stream(device).record().wait();
  } catch (...) {  // nothing runs on a device that has failed
  }
}

}  // namespace

Storage::Storage(Device device, MemoryPool& pool, std::size_t bytes)
    : device_(device),
      pool_(&pool),
      owner_(pool.owner()),
      data_(static_cast<std::byte*>(pool.allocate(bytes))),
      bytes_(bytes) {}

Storage::Storage(Device device, void* data, std::size_t bytes, std::shared_ptr<const void> owner)
    : device_(device), owner_(std::move(owner)), data_(static_cast<std::byte*>(data)), bytes_(bytes) {}

Storage::~Storage() {
  if (pool_ != nullptr)
    pool_->release(data_, bytes_);
  else if (owner_ != nullptr && device_.kind != DeviceKind::cpu)
    finish_work(device_);
}

}  // namespace tutti
