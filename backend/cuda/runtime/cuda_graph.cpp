// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/cuda_graph.h>

#include <tutti/backend/cuda/cuda_backend.h>
#include <tutti/backend/raise.h>

#include <utility>

namespace tutti {

using cuda_runtime::CurrentDevice;
using cuda_runtime::launch_or_allocate;
using cuda_runtime::settled;

namespace {

constexpr std::string_view kGraphOperation = "graph";

/// What a recording gave; no longer needed when it can be launched.
class RecordedGraph {
 public:
  explicit RecordedGraph(const CudaStream& stream) : error_(settled(cudaStreamEndCapture(stream.handle(), &graph_))) {}
  ~RecordedGraph() {
    if (graph_ != nullptr) (void)settled(cudaGraphDestroy(graph_));
  }
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;

  cudaError_t error() const noexcept { return error_; }
  cudaGraph_t get() const noexcept { return graph_; }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaError_t error_;
};

constexpr std::string_view kWayRound = "CapturedStepOptions::device_graphs = false replays without";

/// OutOfMemoryError if that is what it is, else DeviceError.
void check_made(cudaError_t status, const char* call, Device device) {
  if (status == cudaErrorMemoryAllocation)
    raise<OutOfMemoryError>("[{}] {}: {} finds no memory", kGraphOperation, to_string(device), call);
  if (status != cudaSuccess) cuda_runtime::raise_cuda_error(status, call, device, kGraphOperation);
}

/// By what was queued before: each call on the device says so from then on.
bool has_failed(const CudaStream& stream) {
  const cudaError_t state = settled(cudaStreamQuery(stream.handle()));
  return state != cudaSuccess && state != cudaErrorNotReady;
}

constinit thread_local GraphRecording* active_recording = nullptr;

/// A graph as CUDA runs it. Its owner lets it go when the compute stream has passed its last launch.
class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(CudaStream& compute, cudaGraphExec_t executable) : compute_(compute), executable_(executable) {}
  ~CudaGraph() override {
    const std::lock_guard lock(launch_or_allocate());
    (void)settled(cudaGraphExecDestroy(executable_));
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch() override {
    compute_.launch(kGraphOperation, [&](cudaStream_t stream) {
      TUTTI_CUDA(compute_.device(), kGraphOperation, cudaGraphLaunch(executable_, stream));
    });
  }

 private:
  CudaStream& compute_;
  cudaGraphExec_t executable_;
};

}  // namespace

// What takes or returns the driver's memory holds the lock. Relaxed: the pool may take memory meanwhile.
GraphRecording::GraphRecording(Device device, MemoryPool& scratch) : scratch_(scratch) {
  const CurrentDevice current(device, kGraphOperation);
  {
    const std::lock_guard lock(launch_or_allocate());
    stream_.emplace(device, CudaStream::Priority::normal);
  }
  TUTTI_CUDA(device, kGraphOperation, cudaStreamBeginCapture(stream_->handle(), cudaStreamCaptureModeRelaxed));
  open_ = true;
  active_recording = this;
}

GraphRecording::~GraphRecording() {
  active_recording = nullptr;
  if (open_) const RecordedGraph dropped(*stream_);
  const std::lock_guard lock(launch_or_allocate());
  stream_.reset();
}

GraphRecording* GraphRecording::active(Device device) noexcept {
  return active_recording != nullptr && active_recording->stream_->device() == device ? active_recording : nullptr;
}

std::unique_ptr<DeviceGraph> GraphRecording::finish(CudaStream& compute) {
  const Device device = compute.device();
  const CurrentDevice current(device, kGraphOperation);
  active_recording = nullptr;
  open_ = false;
  const RecordedGraph recorded(*stream_);
  check_made(recorded.error(), "cudaStreamEndCapture", device);
  cudaGraphExec_t executable = nullptr;
  std::unique_lock lock(launch_or_allocate());
  check_made(settled(cudaGraphInstantiate(&executable, recorded.get(), 0)), "cudaGraphInstantiate", device);
  const cudaError_t uploaded = settled(cudaGraphUpload(executable, compute.handle()));
  lock.unlock();
  auto graph = std::make_unique<CudaGraph>(compute, executable);
  check_made(uploaded, "cudaGraphUpload", device);
  return graph;
}

std::unique_ptr<DeviceGraph> CudaBackend::make_graph(Device device, MemoryPool& scratch,
                                                     const std::function<void()>& work) {
  CudaStream& compute = context(device).compute;
  if (compute.waits_for_each()) return nullptr;
  try {
    GraphRecording recording(device, scratch);
    work();
    return recording.finish(compute);
  } catch (const DeviceError& error) {
    if (has_failed(compute)) throw;
    raise<CaptureError>("[graph] a part of a captured step cannot be made a CUDA graph ({}): {}", error.what(),
                        kWayRound);
  } catch (const OutOfMemoryError& error) {
    raise<OutOfMemoryError>("{}; a CUDA graph and its temporary memory take memory of their own: {}", error.what(),
                            kWayRound);
  }
}

}  // namespace tutti
