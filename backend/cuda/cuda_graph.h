// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/cuda_stream.h>
#include <tutti/backend/device.h>
#include <tutti/backend/device_graph.h>
#include <tutti/backend/memory_pool.h>

#include <memory>
#include <optional>

namespace tutti {

/// While one lives on a thread, what that thread queues on the device becomes a graph in place of going to its compute
/// stream: it goes to a stream of the recording, which nobody else knows, and temporary memory comes from `scratch`.
/// Not nested. DeviceError where CUDA refuses.
class GraphRecording {
 public:
  GraphRecording(Device, MemoryPool& scratch);
  ~GraphRecording();
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;

  /// That of the calling thread on the device; null: none.
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
