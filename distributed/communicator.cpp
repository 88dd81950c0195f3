// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/communicator.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/local_communicator.h>

namespace tutti {

std::shared_ptr<CollectiveTask> Communicator::reduce_sparse(SparseReduction request) {
  raise<SyncError>(
      "[sync] this engine cannot reduce the sparse gradients of parameter \"{}\": mark it dense with "
      "set_sparse_grad(false) before it is attached",
      request.parameter.name);
}

std::shared_ptr<CollectiveTask> Communicator::compressed_all_reduce(std::shared_ptr<CompressedReduction>,
                                                                    std::vector<Event>, std::vector<Device>) {
  raise<SyncError>("[all_reduce] this engine does not compress gradients");
}

std::unique_ptr<Communicator> make_communicator(std::span<const Device> devices) {
  for (const Device device : devices)
    if (device.kind != DeviceKind::cpu)
      raise<DeviceError>("[sync] no engine was built for {}: the local engine takes CPU devices", to_string(device));
  return std::make_unique<LocalCommunicator>();
}

}  // namespace tutti
