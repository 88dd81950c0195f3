// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/slices.h>
#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/distributed/engines/nccl/nccl_group.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

class NcclTask;

/// The communication streams of the group's devices in this process, by place, and what all launches do with them.
class NcclStreams {
 public:
  NcclStreams(NcclGroup& group, std::string_view operation) : group_(group), operation_(operation) {}

  NcclGroup& group() const noexcept { return group_; }
  CudaStream& of(std::size_t place) const;
  std::size_t place_of(Device) const;  ///< throws SyncError if it is not in the group

  /// Orders what is queued from now on behind these events. A device waits for its own alone: others' work reaches it
  /// through NCCL, whose sender has waited.
  void wait_for(std::span<const Event>) const;
  /// Waits for the last user of memory that is to be written, who may still be queued on the compute stream.
  void wait_for_users(std::size_t place) const;
  /// Memory for the time of a launch.
  std::byte* workspace(std::size_t place, std::size_t bytes, NcclTask&) const;

  template <class F> void launch(std::size_t place, F&& work) const {
    of(place).launch(operation_, std::forward<F>(work));
  }
  void copy(std::size_t place, void* to, const void* from, std::size_t bytes) const;
  void clear(std::size_t place, void* memory, std::size_t bytes) const;
  void combine(std::size_t place, DType, const cuda_kernels::SliceTable&, std::int64_t count,
               const cuda_kernels::SliceOperation&) const;
  /// values[i] /= denominator.
  void divide(std::size_t place, DType, std::byte* values, std::int64_t count, double denominator) const;

  /// `calls()`, whose NCCL calls of all devices belong together. They start when all are there: nothing may be waited
  /// for among them. Before the task's first the streams note who has come.
  template <class F> void together(NcclTask& task, F&& calls) const {
    record_begun(task);
    group_.submit(operation_, std::forward<F>(calls));
  }
  // Calls that `together` may make:
  void send(std::size_t place, const void* from, std::size_t bytes, std::size_t to_rank) const;
  void receive(std::size_t place, void* to, std::size_t bytes, std::size_t from_rank) const;
  void all_reduce(std::size_t place, const void* from, void* to, std::int64_t count, DType) const;
  void reduce(std::size_t place, const void* from, void* to, std::int64_t count, DType, std::size_t root) const;

  void record_done(NcclTask&) const;

 private:
  void record_begun(NcclTask&) const;

  NcclGroup& group_;
  std::string_view operation_;
};

}  // namespace tutti
