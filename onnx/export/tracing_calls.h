// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/onnx/export/kernel_nodes.h>
#include <tutti/onnx/export/traced_memory.h>

#include <memory>

namespace tutti::onnx {

class TracingCalls;

/// Adds the operators of what its thread asks a kind of device for while it lives, which is done as always. Not nested,
/// and not within a capture: CaptureError.
class TraceScope {
 public:
  TraceScope(Device, KernelNodes&, TracedMemory&);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  std::unique_ptr<TracingCalls> calls_;
};

}  // namespace tutti::onnx
