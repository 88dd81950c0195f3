// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/make_communicator.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#ifdef TUTTI_HAVE_CUDA
#include <tutti/backend/cuda/runtime/gpu_mapping.h>
#include <tutti/distributed/engines/peer/peer_communicator.h>
#endif
#ifdef TUTTI_HAVE_NCCL
#include <tutti/distributed/engines/nccl/nccl_communicator.h>
#endif

#include <vector>

namespace tutti {

namespace {

#ifdef TUTTI_HAVE_CUDA
// NCCL's is the faster one between GPUs, and takes one device of each.
std::unique_ptr<Communicator> connect_cuda(std::vector<Device> devices,
                                           [[maybe_unused]] std::chrono::milliseconds fail_after) {
  (void)backend_for(devices.front());  // says how many devices a GPU has
#ifdef TUTTI_HAVE_NCCL
  const std::size_t gpus = cuda_runtime::first_of_each_gpu(devices).size();
  if (gpus > 1 && gpus == devices.size()) {
    constexpr std::chrono::seconds kToConnect(60);
    return std::make_unique<NcclCommunicator>(std::move(devices), kToConnect, fail_after);
  }
#endif
  return std::make_unique<PeerCommunicator>(std::move(devices));
}
#endif

}  // namespace

std::unique_ptr<Communicator> make_communicator(std::span<const Device> devices,
                                                [[maybe_unused]] std::chrono::milliseconds fail_after) {
  const Device first = devices.front();
  for (const Device device : devices)
    if (device.kind != first.kind)
      raise<DeviceError>("[sync] no engine connects {} and {}: a group has devices of one kind", to_string(first),
                         to_string(device));
  if (first.kind == DeviceKind::cpu) return std::make_unique<LocalCommunicator>();
#ifdef TUTTI_HAVE_CUDA
  if (first.kind == DeviceKind::cuda) return connect_cuda({devices.begin(), devices.end()}, fail_after);
#endif
  raise<DeviceError>("[sync] no engine was built for {}: the local engine takes CPU devices", to_string(first));
}

}  // namespace tutti
