// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/pinned_memory.h>

#include <tutti/backend/cuda/cuda_check.h>
#include <tutti/backend/error.h>

#include <utility>

namespace tutti {

PinnedMemory::~PinnedMemory() {
  for (const Lent& lent : lent_) (void)cuda_runtime::settled(cudaFreeHost(lent.block));
}

std::byte* PinnedMemory::take() {
  Lent oldest{};
  {
    const std::lock_guard lock(mutex_);
    const bool reusable = !lent_.empty() && (!lent_.front().used.recorded() || lent_.front().used.ready());
    if (!reusable && blocks_ < kMostBlocks) {
      const cuda_runtime::CurrentDevice current(device_, "pinned memory");
      void* block = nullptr;
      if (cuda_runtime::settled(cudaHostAlloc(&block, kBlock, cudaHostAllocPortable)) == cudaSuccess) {
        ++blocks_;
        return static_cast<std::byte*>(block);
      }
    }
    if (lent_.empty())
      raise<OutOfMemoryError>("[memory] {}: no pinned memory for copies from and to the host", to_string(device_));
    oldest = std::move(lent_.front());
    lent_.pop_front();
  }
  try {
    if (oldest.used.recorded()) oldest.used.synchronize();
  } catch (...) {
    give_back(oldest.block, {});
    throw;
  }
  return oldest.block;
}

void PinnedMemory::give_back(std::byte* block, Event used) {
  const std::lock_guard lock(mutex_);
  if (used.recorded())
    lent_.push_back({block, std::move(used)});
  else
    lent_.push_front({block, {}});
}

}  // namespace tutti
