// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/distributed/communicator.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace tutti {

// How requests become copies and kernels on the streams of a PeerCommunicator, one stream for each GPU. Nothing of the
// results is written before the memory's last user on its own device's compute stream has done.

/// The streams, and what all launches do with them.
class PeerStreams {
 public:
  PeerStreams(std::span<CudaStream* const> streams, std::string_view operation)
      : streams_(streams), operation_(operation) {}

  std::size_t size() const noexcept { return streams_.size(); }
  CudaStream& operator[](std::size_t gpu) const { return *streams_[gpu]; }
  CudaStream& on_gpu_of(Device) const;  ///< throws SyncError if no device of the group lies there

  void wait_for(std::span<const Event>) const;          ///< unrecorded ones count as past
  void wait_for_users(std::span<const Device>) const;   ///< waits for users of memory that is to be written
  void copy(const Array& from, const Array& to) const;  ///< contiguous, of one size
  void copy(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes) const;
  void clear(Device, void* memory, std::size_t bytes) const;
  std::string_view operation() const noexcept { return operation_; }

 private:
  std::span<CudaStream* const> streams_;
  std::string_view operation_;
};

void launch_all_reduce(const AllReduceRequest&, const PeerStreams&);
void launch_collective(const CollectiveRequest&, const PeerStreams&);
/// Makes the results' arrays, and gives each to `keep` before anything is queued on it.
void launch_sparse(const SparseReduction&, const PeerStreams&, const std::function<void(const Array&)>& keep);

}  // namespace tutti
