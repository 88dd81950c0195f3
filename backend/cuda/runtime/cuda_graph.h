// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/device_graph.h>
#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/backend/device.h>
#include <tutti/backend/memory/memory_pool.h>

#include <memory>
#include <optional>

namespace tutti {

/// Turns what its thread queues on the device while it lives into a graph: it goes not to the compute stream but to a
/// stream of the recording, which nobody else knows, and temporary memory comes from `scratch`. Not nested. DeviceError
/// where CUDA refuses.
class GraphRecording {
 public:
  GraphRecording(Device, MemoryPool& scratch);
  ~GraphRecording();
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;

  /// The recording of the calling thread on the device; null: none.
  static GraphRecording* active(Device) noexcept;

  CudaStream& stream() noexcept { return *stream_; }
  MemoryPool& scratch() noexcept { return scratch_; }

  /// Ends the recording. The graph goes to `compute`, which outlives it.
  std::unique_ptr<DeviceGraph> finish(CudaStream& compute);

 private:
  MemoryPool& scratch_;
  std::optional<CudaStream> stream_;
  bool open_ = false;
};

}  // namespace tutti
