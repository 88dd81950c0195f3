// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/peer_access.h>

#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/cuda/runtime/gpu_mapping.h>
#include <tutti/backend/raise.h>

#include <vector>

namespace tutti::cuda_runtime {

void enable_peer_access(std::span<const Device> devices) {
  constexpr std::string_view kOperation = "peer access";
  const std::vector<Device> firsts = first_of_each_gpu(devices);
  for (const Device device : firsts)
    for (const Device peer : firsts) {
      if (device == peer) continue;
      int can = 0;
      TUTTI_CUDA(device, kOperation, cudaDeviceCanAccessPeer(&can, gpu_of(device), gpu_of(peer)));
      if (can == 0)
        raise<DeviceError>("[{}] {} cannot reach the memory of {}: their GPUs have no peer access", kOperation,
                           to_string(device), to_string(peer));
      const CurrentDevice current(device, kOperation);
      const cudaError_t error = settled(cudaDeviceEnablePeerAccess(gpu_of(peer), 0));
      if (error != cudaSuccess && error != cudaErrorPeerAccessAlreadyEnabled)
        raise_cuda_error(error, "cudaDeviceEnablePeerAccess", device, kOperation);
    }
}

void queue_copy(std::string_view operation, cudaStream_t stream, Device to_device, void* to, Device from_device,
                const void* from, std::size_t bytes) {
  const int to_gpu = gpu_of(to_device);
  const int from_gpu = gpu_of(from_device);
  TUTTI_CUDA(to_device, operation,
             to_gpu == from_gpu ? cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream)
                                : cudaMemcpyPeerAsync(to, to_gpu, from, from_gpu, bytes, stream));
}

}  // namespace tutti::cuda_runtime
