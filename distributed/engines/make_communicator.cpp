// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/make_communicator.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/gpu_engines.h>
#include <tutti/distributed/engines/local/local_communicator.h>

#include <vector>

namespace tutti {

std::unique_ptr<Communicator> make_communicator(std::span<const Device> devices, std::chrono::milliseconds fail_after) {
  const Device first = devices.front();
  for (const Device device : devices)
    if (device.kind != first.kind)
      raise<DeviceError>("[sync] no engine connects {} and {}: a group has devices of one kind", to_string(first),
                         to_string(device));
  if (first.kind == DeviceKind::cpu) return std::make_unique<LocalCommunicator>();
  if (first.kind == DeviceKind::cuda) return gpu_engines().connect({devices.begin(), devices.end()}, fail_after);
  raise<DeviceError>("[sync] no engine was built for {}: the local engine takes CPU devices", to_string(first));
}

}  // namespace tutti
