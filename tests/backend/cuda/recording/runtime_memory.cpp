// SPDX-License-Identifier: Apache-2.0
// The runtime's functions for memory, in place of NVIDIA's library.
#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <fmt/format.h>

#include <cstring>

namespace tutti::testing {

namespace {

using Lock = CudaMachine::Lock;

/// What one side of a copy is said to be, against what it is.
bool check_side(CudaMachine& machine, const std::string& what, const void* data, bool device, int index) {
  const Allocation* memory = machine.find(data);
  const bool on_device = memory != nullptr && !memory->pinned();
  if (device != on_device) {
    machine.fault(fmt::format("{} takes a pointer to {} for one to {}", what, on_device ? memory->name() : "the host",
                              device ? "a device" : "the host"));
    return false;
  }
  if (device && memory->device() != index)
    machine.fault(fmt::format("{} on cuda:{} uses {}", what, index, memory->name()));
  return !device || memory->device() == index;
}

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  int to_device;  ///< -1: the host
  int from_device;
  const char* name;
};

std::vector<MemoryUse> uses_of(CudaMachine& machine, const Copy& copy) {
  std::vector<MemoryUse> uses;
  if (machine.find(copy.from) != nullptr) uses.push_back({copy.from, copy.bytes, false});
  if (machine.find(copy.to) != nullptr) uses.push_back({copy.to, copy.bytes, true});
  return uses;
}

/// As CUDA does: memory of the host that is not pinned is read before the call returns, and written before, too.
cudaError_t queue_copy(CudaMachine& machine, Lock& lock, const Copy& copy, cudaStream_t handle) {
  SimulatedStream* stream = machine.stream(copy.name, handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  machine.check_device(copy.name, *stream);
  if (copy.bytes == 0) return cudaSuccess;
  if (!check_side(machine, copy.name, copy.to, copy.to_device >= 0, copy.to_device)) return cudaErrorInvalidValue;
  if (!check_side(machine, copy.name, copy.from, copy.from_device >= 0, copy.from_device)) return cudaErrorInvalidValue;
  const auto uses = uses_of(machine, copy);
  for (const MemoryUse& use : uses)
    if (!machine.check_use(*stream, copy.name, use)) return cudaErrorInvalidValue;

  QueuedWork work{copy.name, [copy] { std::memmove(copy.to, copy.from, copy.bytes); }, {}, {}};
  if (machine.find(copy.from) == nullptr) {
    const auto* begin = static_cast<const std::byte*>(copy.from);
    work.run = [copy, taken = std::vector<std::byte>(begin, begin + copy.bytes)] {
      std::memcpy(copy.to, taken.data(), copy.bytes);
    };
  }
  machine.enqueue(lock, *stream, std::move(work), uses);
  if (machine.find(copy.to) == nullptr) {
    machine.drain(lock, *stream);
    machine.host_waited_for(stream->clock);
  }
  return cudaSuccess;
}

std::string text_of(std::size_t bytes) { return fmt::format("{} bytes", bytes); }

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return recorded_call("cudaMalloc", text_of(bytes), [&](CudaMachine& machine, Lock&) {
    *data = machine.allocate(machine.thread().device, bytes);
    return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFree(void* data) {
  return recorded_release("cudaFree", {},
                          [&](CudaMachine& machine, Lock&) { return machine.free("cudaFree", data, false); });
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  return recorded_call("cudaHostAlloc", text_of(bytes), [&](CudaMachine& machine, Lock&) {
    *data = machine.allocate(-1, bytes);
    return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* data) {
  return recorded_release("cudaFreeHost", {},
                          [&](CudaMachine& machine, Lock&) { return machine.free("cudaFreeHost", data, true); });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return recorded_call("cudaMemGetInfo", {}, [&](CudaMachine& machine, Lock&) {
    const int device = machine.thread().device;
    *total = *free = machine.options.memory;
    for (const Allocation& each : machine.allocations)
      if (each.device() == device && !each.freed) *free -= each.bytes();
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  return recorded_call("cudaMemcpyAsync", text_of(bytes), [&](CudaMachine& machine, Lock& lock) {
    SimulatedStream* stream = machine.stream("cudaMemcpyAsync", handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const auto is_device = [&](const void* data) {
      const Allocation* memory = machine.find(data);
      return memory != nullptr && !memory->pinned();
    };
    const bool to_device =
        kind == cudaMemcpyDefault ? is_device(to) : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDefault
                                 ? is_device(from)
                                 : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    const Copy copy{
        to, from, bytes, to_device ? stream->device : -1, from_device ? stream->device : -1, "cudaMemcpyAsync"};
    return queue_copy(machine, lock, copy, handle);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  return recorded_call("cudaMemcpyPeerAsync", text_of(bytes), [&](CudaMachine& machine, Lock& lock) {
    return queue_copy(machine, lock, {to, from, bytes, to_device, from_device, "cudaMemcpyPeerAsync"}, stream);
  });
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t handle) {
  return recorded_call("cudaMemsetAsync", text_of(bytes), [&](CudaMachine& machine, Lock& lock) {
    SimulatedStream* stream = machine.stream("cudaMemsetAsync", handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    machine.check_device("cudaMemsetAsync", *stream);
    if (bytes == 0) return cudaSuccess;
    const MemoryUse use{data, bytes, true};
    if (!check_side(machine, "cudaMemsetAsync", data, true, stream->device) ||
        !machine.check_use(*stream, "cudaMemsetAsync", use))
      return cudaErrorInvalidValue;
    machine.enqueue(lock, *stream, {"cudaMemsetAsync", [=] { std::memset(data, value, bytes); }, {}, {}}, {use});
    return cudaSuccess;
  });
}

}  // extern "C"

}  // namespace tutti::testing
