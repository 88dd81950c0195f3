// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace tutti::testing {

namespace {

std::atomic<CudaMachine*> current_machine{nullptr};

bool needs_no_current_device(std::string_view call) {
  return call == "cudaGetDevice" || call == "cudaSetDevice" || call == "cudaGetDeviceCount" ||
         call == "cudaEventQuery" || call == "cudaEventSynchronize" || call == "cudaStreamSynchronize";
}

bool makes_context(std::string_view call) {
  return !needs_no_current_device(call) && call != "cudaGetLastError" && call != "cudaDeviceCanAccessPeer" &&
         call != "cudaFreeHost" && !call.ends_with("Destroy");
}

// Of compute capability 9.0; nothing may be 0.
bool within_limits(const KernelLaunch& launch) {
  const auto within = [](const dim3& size, unsigned x, unsigned y, unsigned z) {
    return size.x - 1 < x && size.y - 1 < y && size.z - 1 < z;
  };
  return within(launch.grid, 0x7FFFFFFFU, 65535, 65535) && within(launch.block, 1024, 1024, 64) &&
         std::size_t{launch.block.x} * launch.block.y * launch.block.z <= 1024 &&
         launch.shared_bytes <= CudaMachine::kMostShared;
}

}  // namespace

CudaMachine* CudaMachine::current() { return current_machine.load(std::memory_order_acquire); }
void CudaMachine::make_current(CudaMachine* machine) { current_machine.store(machine, std::memory_order_release); }

cudaError_t CudaMachine::enter(const char* name, std::string text, bool releases) {
  calls.push_back({name, std::move(text)});
  if (makes_context(name)) contexts.insert(thread().device);
  if (call_failure && (call_failure->name == "*" || call_failure->name == name) && --call_failure->left == 0) {
    const cudaError_t error = call_failure->error;
    call_failure.reset();
    return error;
  }
  const auto found = errors_.find(thread().device);
  const bool lost = found != errors_.end() && found->second.sticky && !releases && !needs_no_current_device(name);
  return lost ? found->second.error : cudaSuccess;
}

cudaError_t CudaMachine::leave(cudaError_t error) {
  if (error != cudaSuccess) thread().error = error;
  return error;
}

void CudaMachine::fault(std::string text) {
  if (std::ranges::find(faults, text) == faults.end()) faults.push_back(std::move(text));
}

void* CudaMachine::make_handle(std::string what) {
  return &handles.emplace_back(LibraryHandle{std::move(what), false});
}

bool CudaMachine::check_handle(const char* call, const void* handle) {
  const bool alive = std::ranges::any_of(handles, [&](auto& each) { return &each == handle && !each.destroyed; });
  if (!alive) fault(fmt::format("{} with a handle that is none, or was destroyed", call));
  return alive;
}

void CudaMachine::destroy_handle(const char* call, const void* handle) {
  if (check_handle(call, handle)) static_cast<LibraryHandle*>(const_cast<void*>(handle))->destroyed = true;
}

std::vector<MemoryUse> CudaMachine::declared_uses(const KernelLaunch& launch) {
  std::vector<MemoryUse> uses;
  for (const DeclaredKernel& kernel : declared) {
    if (launch.name.find(kernel.name) == std::string::npos) continue;
    if (kernel.uses)
      for (const KernelUse& each : kernel.uses(launch)) uses.push_back({each.data, each.bytes, each.write});
    for (const KernelPointer& pointer : kernel.pointers) {
      const std::byte* data = nullptr;
      const auto* argument = static_cast<const std::byte*>(launch.arguments[pointer.argument]);
      std::memcpy(&data, argument + pointer.offset, sizeof data);
      const Allocation* memory = find(data);
      const std::size_t rest =
          memory == nullptr ? 1 : static_cast<std::size_t>(memory->data() + memory->bytes() - data);
      uses.push_back({data, pointer.bytes == 0 ? rest : pointer.bytes, pointer.write});
    }
  }
  return uses;
}

cudaError_t CudaMachine::launch(Lock& lock, const KernelLaunch& launch) {
  kernels.push_back(launch.name);
  SimulatedStream* found = stream(launch.name.c_str(), launch.stream);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  check_device(launch.name.c_str(), *found);
  if (thread().device != found->device) return cudaErrorInvalidResourceHandle;
  if (!within_limits(launch)) return cudaErrorInvalidConfiguration;
  std::function<void()> body = [] {};
  for (const KernelBody& each : bodies)
    if (launch.name.find(each.name) != std::string::npos) body = each.prepare(launch);
  const std::vector<MemoryUse> uses = declared_uses(launch);
  for (const MemoryUse& each : uses)
    if (const Allocation* memory = find(each.data))
      if (!memory->pinned() && memory->device() != found->device &&
          !peer_access.contains({found->device, memory->device()}))
        fault(fmt::format("{} on {} uses {} without peer access", launch.name, found->name(), memory->name()));
  enqueue(lock, *found, {launch.name, std::move(body), {}, {}}, uses);
  return cudaSuccess;
}

std::vector<std::string> CudaMachine::leaks() {
  std::vector<std::string> found;
  for (const SimulatedStream& each : streams)
    if (!each.destroyed) found.push_back(each.name() + " was never destroyed");
  for (const SimulatedEvent& each : events)
    if (!each.destroyed) found.push_back(each.name() + " was never destroyed");
  for (const SimulatedGraph& each : graphs)
    if (!each.destroyed) found.push_back(each.name() + " was never destroyed");
  for (const LibraryHandle& each : handles)
    if (!each.destroyed) found.push_back(each.what + " was never destroyed");
  for (const Allocation& each : allocations) {
    if (each.freed) continue;
    found.push_back(each.name() + " was never freed");
    if (!each.guards_intact()) found.push_back(each.name() + " was written beyond its ends");
  }
  return found;
}

}  // namespace tutti::testing
