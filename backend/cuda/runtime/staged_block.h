// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/backend/cuda/runtime/pinned_memory.h>

#include <utility>

namespace tutti {

/// A block of pinned memory in use by one copy, given back when it goes: however the copy ends, the block is not lent
/// again before the device has done with it.
class StagedBlock {
 public:
  StagedBlock() = default;  ///< none
  StagedBlock(PinnedMemory& memory, std::byte* block, CudaStream& stream)
      : memory_(&memory), stream_(&stream), block_(block) {}
  StagedBlock(StagedBlock&& other) noexcept { swap(other); }
  StagedBlock& operator=(StagedBlock&& other) noexcept {
    StagedBlock taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~StagedBlock() {
    if (block_ == nullptr) return;
    if (queued_ && !used_.recorded()) (void)cuda_runtime::settled(cudaStreamSynchronize(stream_->handle()));
    memory_->give_back(block_, std::move(used_));
  }

  explicit operator bool() const noexcept { return block_ != nullptr; }
  std::byte* data() const noexcept { return block_; }

  template <class F> void launch(std::string_view operation, F&& copy) {
    queued_ = true;
    stream_->launch(operation, copy);
    used_ = stream_->record();
  }
  void wait() {
    used_.synchronize();
    used_ = {};
    queued_ = false;
  }

 private:
  void swap(StagedBlock& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(stream_, other.stream_);
    std::swap(block_, other.block_);
    std::swap(queued_, other.queued_);
    std::swap(used_, other.used_);
  }

  PinnedMemory* memory_ = nullptr;
  CudaStream* stream_ = nullptr;
  std::byte* block_ = nullptr;
  bool queued_ = false;
  Event used_;
};

}  // namespace tutti
