// SPDX-License-Identifier: Apache-2.0
// The runtime's functions for devices, streams and events, in place of NVIDIA's library.
#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <cuda.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

namespace tutti::testing {

namespace {

using Lock = CudaMachine::Lock;

constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

cudaError_t wait_for_all(CudaMachine& machine, Lock& lock, SimulatedStream& stream) {
  if (machine.refuses_capture("cudaStreamSynchronize", stream.device, &stream))
    return cudaErrorStreamCaptureUnsupported;
  machine.drain(lock, stream);
  machine.wait_for_others(lock, stream, [&] { return stream.queue.empty(); });
  machine.check_waited("cudaStreamSynchronize", stream, stream.queue.empty());
  machine.host_waited_for(stream.clock);
  return machine.asynchronous_error(stream.device);
}

SimulatedEvent* recorded_event(CudaMachine& machine, const char* call, cudaEvent_t handle) {
  SimulatedEvent* event = machine.event(call, handle);
  if (event == nullptr || event->point != nullptr) return event;
  machine.fault(fmt::format("{} of {}, which was never recorded", call, event->name()));
  return nullptr;
}

cudaError_t attribute_of(int* value, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = 132; return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; return cudaSuccess;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = 32; return cudaSuccess;
    case cudaDevAttrWarpSize: *value = 32; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 << 10; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = CudaMachine::kMostShared; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 228 << 10; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; return cudaSuccess;
    default: return cudaErrorInvalidValue;
  }
}

CUresult primary_context_state(CUdevice device, unsigned* flags, int* active) {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return CUDA_ERROR_NO_DEVICE;
  const Lock lock(machine->mutex);
  *flags = 0;
  *active = machine->contexts.contains(device) ? 1 : 0;
  return CUDA_SUCCESS;
}

/// Until the number in pinned memory is reached. Work of other streams goes on meanwhile.
CUresult stream_wait_value(CUstream handle, CUdeviceptr address, std::uint32_t value, unsigned flags) {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return CUDA_ERROR_NO_DEVICE;
  Lock lock(machine->mutex);
  if (const cudaError_t error = machine->enter("cuStreamWaitValue32", {}, false); error != cudaSuccess)
    return error == cudaErrorNotSupported ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_UNKNOWN;
  SimulatedStream* stream = machine->stream("cuStreamWaitValue32", reinterpret_cast<cudaStream_t>(handle));
  auto* number = reinterpret_cast<std::uint32_t*>(address);
  const Allocation* memory = machine->find(number);
  if (stream == nullptr || flags != CU_STREAM_WAIT_VALUE_GEQ || memory == nullptr || !memory->pinned())
    return CUDA_ERROR_INVALID_VALUE;
  machine->check_device("cuStreamWaitValue32", *stream);
  machine->refuses_capture("cuStreamWaitValue32", stream->device, stream);
  const auto work = [number, value] {
    while (static_cast<std::int32_t>(std::atomic_ref(*number).load(std::memory_order_acquire) - value) < 0)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  };
  machine->enqueue(lock, *stream, {"cuStreamWaitValue32", work, {}, {}}, {{number, sizeof *number, false}});
  return CUDA_SUCCESS;
}

/// The driver has one thread for the host functions of all streams.
std::mutex& host_functions() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

extern "C" {

// --- the driver, of which two functions are asked for

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const std::string_view asked = name;
  *function = asked == "cuDevicePrimaryCtxGetState" ? reinterpret_cast<void*>(primary_context_state)
              : asked == "cuStreamWaitValue32"      ? reinterpret_cast<void*>(stream_wait_value)
                                                    : nullptr;
  *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

// --- devices

cudaError_t cudaGetDeviceCount(int* count) {
  return recorded_call("cudaGetDeviceCount", {}, [&](CudaMachine& machine, Lock&) {
    *count = machine.options.devices;
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return recorded_call("cudaGetDeviceProperties", std::to_string(device), [&](CudaMachine& machine, Lock&) {
    if (device < 0 || device >= machine.options.devices) return cudaErrorInvalidDevice;
    *properties = {};
    std::snprintf(properties->name, sizeof properties->name, "simulated GPU %d", device);
    properties->major = 9;
    properties->totalGlobalMem = std::size_t{1} << 30U;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  return recorded_call("cudaDriverGetVersion", {}, [&](CudaMachine& machine, Lock&) {
    *version = machine.options.driver ? CUDART_VERSION : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return recorded_call("cudaGetDevice", {}, [&](CudaMachine& machine, Lock&) {
    *device = machine.thread().device;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return recorded_call("cudaSetDevice", std::to_string(device), [&](CudaMachine& machine, Lock&) {
    if (device < 0 || device >= machine.options.devices) return cudaErrorInvalidDevice;
    machine.thread().device = device;
    machine.contexts.insert(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return recorded_call("cudaDeviceSynchronize", {}, [&](CudaMachine& machine, Lock& lock) {
    const int device = machine.thread().device;
    if (machine.refuses_capture("cudaDeviceSynchronize", device)) return cudaErrorStreamCaptureUnsupported;
    for (SimulatedStream& stream : machine.streams)
      if (stream.device == device && !stream.destroyed) {
        machine.drain(lock, stream);
        machine.check_waited("cudaDeviceSynchronize", stream, stream.queue.empty());
        machine.host_waited_for(stream.clock);
      }
    return machine.asynchronous_error(device);
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return recorded_call("cudaDeviceGetStreamPriorityRange", {}, [&](CudaMachine&, Lock&) {
    *least = kLeastPriority;
    *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return recorded_call("cudaDeviceGetAttribute", std::to_string(device), [&](CudaMachine& machine, Lock&) {
    return device < 0 || device >= machine.options.devices ? cudaErrorInvalidDevice : attribute_of(value, attribute);
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return recorded_call("cudaDeviceCanAccessPeer", {}, [&](CudaMachine& machine, Lock&) {
    *can = device != peer && machine.options.peers ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return recorded_call("cudaDeviceEnablePeerAccess", std::to_string(peer), [&](CudaMachine& machine, Lock&) {
    const int device = machine.thread().device;
    if (device == peer || !machine.options.peers) return cudaErrorInvalidDevice;
    return machine.peer_access.insert({device, peer}).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

// --- streams

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return recorded_call("cudaStreamCreateWithPriority", std::to_string(priority), [&](CudaMachine& machine, Lock&) {
    if (flags != cudaStreamNonBlocking) machine.fault("a stream that waits for the default stream");
    *stream = machine.make_stream(priority);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return recorded_release("cudaStreamDestroy", {}, [&](CudaMachine& machine, Lock&) {
    SimulatedStream* stream = machine.stream("cudaStreamDestroy", handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    machine.refuses_capture("cudaStreamDestroy", stream->device, stream);
    if (!stream->queue.empty())
      machine.fault(fmt::format("{} was destroyed while {} is queued", stream->name(), stream->queue.front().name));
    stream->destroyed = true;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return recorded_call("cudaStreamSynchronize", {}, [&](CudaMachine& machine, Lock& lock) {
    SimulatedStream* stream = machine.stream("cudaStreamSynchronize", handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : wait_for_all(machine, lock, *stream);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return recorded_call("cudaStreamQuery", {}, [&](CudaMachine& machine, Lock& lock) {
    SimulatedStream* stream = machine.stream("cudaStreamQuery", handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return stream->queue.empty() && !stream->running ? wait_for_all(machine, lock, *stream) : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t awaited, unsigned) {
  return recorded_call("cudaStreamWaitEvent", {}, [&](CudaMachine& machine, Lock& lock) {
    SimulatedStream* stream = machine.stream("cudaStreamWaitEvent", handle);
    SimulatedEvent* event = recorded_event(machine, "cudaStreamWaitEvent", awaited);
    if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
    machine.enqueue(lock, *stream, {"cudaStreamWaitEvent", {}, {}, event->point});
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return recorded_call("cudaLaunchHostFunc", {}, [&](CudaMachine& machine, Lock& lock) {
    SimulatedStream* stream = machine.stream("cudaLaunchHostFunc", handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const auto work = [=] {
      const std::lock_guard one_at_a_time(host_functions());
      function(data);
    };
    machine.enqueue(lock, *stream, {"cudaLaunchHostFunc", work, {}, {}});
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return recorded_call("cudaStreamIsCapturing", {}, [&](CudaMachine& machine, Lock&) {
    const SimulatedStream* stream = machine.stream("cudaStreamIsCapturing", handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = stream->captured != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}

// --- graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return recorded_call("cudaStreamBeginCapture", {}, [&](CudaMachine& machine, Lock&) {
    SimulatedStream* stream = machine.stream("cudaStreamBeginCapture", handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (machine.refuses_capture("cudaStreamBeginCapture", stream->device, stream)) return cudaErrorIllegalState;
    if (mode != cudaStreamCaptureModeRelaxed) machine.fault("a capture that forbids taking memory");
    stream->captured = &machine.make_graph(stream->device);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return recorded_release("cudaStreamEndCapture", {}, [&](CudaMachine& machine, Lock&) {
    SimulatedStream* stream = machine.stream("cudaStreamEndCapture", handle);
    if (stream == nullptr || stream->captured == nullptr) return cudaErrorIllegalState;
    *graph = reinterpret_cast<cudaGraph_t>(std::exchange(stream->captured, nullptr));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t from, unsigned long long) {
  return recorded_call("cudaGraphInstantiate", {}, [&](CudaMachine& machine, Lock&) {
    const SimulatedGraph* graph = machine.graph("cudaGraphInstantiate", from, false);
    if (graph == nullptr) return cudaErrorInvalidValue;
    SimulatedGraph& executable = machine.make_graph(graph->device);
    executable.executable = true;
    executable.pieces = graph->pieces;
    *made = reinterpret_cast<cudaGraphExec_t>(&executable);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t on) {
  return recorded_call("cudaGraphUpload", {}, [&](CudaMachine& machine, Lock&) {
    const bool known = machine.graph("cudaGraphUpload", handle, true) != nullptr;
    return known && machine.stream("cudaGraphUpload", on) != nullptr ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t on) {
  return recorded_call("cudaGraphLaunch", {}, [&](CudaMachine& machine, Lock& lock) {
    const SimulatedGraph* graph = machine.graph("cudaGraphLaunch", handle, true);
    SimulatedStream* stream = machine.stream("cudaGraphLaunch", on);
    if (graph == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
    machine.check_device("cudaGraphLaunch", *stream);
    for (const SimulatedGraph::Piece& piece : graph->pieces) machine.enqueue(lock, *stream, piece.work, piece.uses);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  return recorded_release("cudaGraphDestroy", {}, [&](CudaMachine& machine, Lock&) {
    SimulatedGraph* graph = machine.graph("cudaGraphDestroy", handle, false);
    if (graph == nullptr) return cudaErrorInvalidValue;
    graph->destroyed = true;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return recorded_release("cudaGraphExecDestroy", {}, [&](CudaMachine& machine, Lock&) {
    SimulatedGraph* graph = machine.graph("cudaGraphExecDestroy", handle, true);
    if (graph == nullptr) return cudaErrorInvalidValue;
    graph->destroyed = true;
    return cudaSuccess;
  });
}

// --- events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return recorded_call("cudaEventCreateWithFlags", {}, [&](CudaMachine& machine, Lock&) {
    *event = machine.make_event();
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return recorded_release("cudaEventDestroy", {}, [&](CudaMachine& machine, Lock&) {
    SimulatedEvent* event = machine.event("cudaEventDestroy", handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    event->destroyed = true;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t recorded, cudaStream_t handle) {
  return recorded_call("cudaEventRecord", {}, [&](CudaMachine& machine, Lock& lock) {
    SimulatedStream* stream = machine.stream("cudaEventRecord", handle);
    SimulatedEvent* event = machine.event("cudaEventRecord", recorded);
    if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->device != stream->device) {
      machine.fault(fmt::format("{} was recorded on {}", event->name(), stream->name()));
      return cudaErrorInvalidResourceHandle;
    }
    event->point = std::make_shared<QueuePoint>(QueuePoint{stream, {}, false});
    machine.enqueue(lock, *stream, {"cudaEventRecord", {}, event->point, {}});
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return recorded_call("cudaEventQuery", {}, [&](CudaMachine& machine, Lock& lock) {
    SimulatedEvent* event = recorded_event(machine, "cudaEventQuery", handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    // What had to wait for another process goes on by itself when that has come.
    if (!machine.options.deferred && !event->point->reached) machine.drain(lock, *event->point->stream);
    if (!event->point->reached) return cudaErrorNotReady;
    machine.host_waited_for(event->point->clock);
    return machine.asynchronous_error(event->device);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return recorded_call("cudaEventSynchronize", {}, [&](CudaMachine& machine, Lock& lock) {
    SimulatedEvent* event = recorded_event(machine, "cudaEventSynchronize", handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    const auto point = event->point;
    machine.reach(lock, point);
    machine.wait_for_others(lock, *point->stream, [&] { return point->reached; });
    machine.check_waited("cudaEventSynchronize", *point->stream, point->reached);
    machine.host_waited_for(point->clock);
    return machine.asynchronous_error(event->device);
  });
}

}  // extern "C"

}  // namespace tutti::testing
