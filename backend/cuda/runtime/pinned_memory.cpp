// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/pinned_memory.h>

#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/raise.h>

#include <utility>

namespace tutti {

using cuda_runtime::settled;

PinnedMemory::~PinnedMemory() {
  for (const Lent& lent : lent_) (void)settled(cudaFreeHost(lent.block));
}

std::byte* PinnedMemory::take() {
  std::unique_lock lock(mutex_);
  std::byte* block = take(lock);
  for (; block == nullptr; block = take(lock)) given_back_.wait(lock);
  return block;
}

std::byte* PinnedMemory::try_take() {
  std::unique_lock lock(mutex_);
  return take(lock);
}

std::byte* PinnedMemory::take(std::unique_lock<std::mutex>& lock) {
  const bool reusable = !lent_.empty() && (!lent_.front().used.recorded() || lent_.front().used.ready());
  if (!reusable && blocks_ < kMostBlocks)
    if (std::byte* block = allocate()) return block;
  if (!lent_.empty()) return wait_for_oldest(lock);
  if (blocks_ == 0)
    raise<OutOfMemoryError>("[memory] {}: no pinned memory for copies from and to the host", to_string(device_));
  return nullptr;
}

std::byte* PinnedMemory::allocate() {
  const cuda_runtime::CurrentDevice current(device_, "pinned memory");
  void* block = nullptr;
  const std::lock_guard allocating(cuda_runtime::launch_or_allocate());
  const cudaError_t error = settled(cudaHostAlloc(&block, kBlock, cudaHostAllocPortable));
  if (error == cudaErrorMemoryAllocation) return nullptr;
  if (error != cudaSuccess) cuda_runtime::raise_cuda_error(error, "cudaHostAlloc", device_, "pinned memory");
  ++blocks_;
  return static_cast<std::byte*>(block);
}

std::byte* PinnedMemory::wait_for_oldest(std::unique_lock<std::mutex>& lock) {
  const Lent oldest = std::move(lent_.front());
  lent_.erase(lent_.begin());
  lock.unlock();
  try {
    if (oldest.used.recorded()) oldest.used.synchronize();
  } catch (...) {
    give_back(oldest.block, oldest.used);  // it may be in use as before
    throw;
  }
  return oldest.block;
}

void PinnedMemory::give_back(std::byte* block, Event used) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto place = used.recorded() ? lent_.end() : lent_.begin();
    lent_.insert(place, {block, std::move(used)});
  }
  given_back_.notify_one();
}

}  // namespace tutti
