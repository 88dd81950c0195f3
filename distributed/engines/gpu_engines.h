// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/devices/device_facts.h>
#include <tutti/distributed/collectives/launch_order.h>
#include <tutti/distributed/communicator.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace tutti {

/// Words that connect CUDA devices of several processes: one process makes them, all know them. As long as NCCL's id.
using GpuMeeting = std::array<std::byte, 128>;

/// This process's part of a group of CUDA devices.
struct GpuPlace {
  GpuMeeting meeting;
  int world = 1;                                ///< devices of all processes
  int first_rank = 0;                           ///< number of this process's first device; its others follow
  std::chrono::milliseconds deadline{60'000};   ///< longest wait for all to connect
  std::chrono::milliseconds patience{300'000};  ///< longest wait for a process that does not come to a collective
  std::function<void()> look_around{};          ///< called now and then while they connect; may throw
};

/// Makes the engines that connect CUDA devices, which lie where their backend does (backend/devices/cuda_devices.h):
/// in the program, or in a plugin.
class GpuEngines {
 public:
  /// Engine for devices of one process: peer for those of one GPU; for one on each of several GPUs NCCL, or peer where
  /// that was not built. `patience`: longest wait for what runs on the devices. Throws DeviceError, naming devices.
  virtual std::unique_ptr<Communicator> connect(std::vector<Device>, std::chrono::milliseconds patience) const = 0;
  /// Throws SyncError where the library was built without NCCL, or it cannot make one.
  virtual GpuMeeting make_meeting(Device) const = 0;
  /// Waits until all processes have connected, by NCCL. Throws SyncError where the library was built without it, or the
  /// devices cannot be connected in time; DeviceError where two of this process lie on one GPU; what `look_around`
  /// throws.
  virtual std::unique_ptr<Communicator> connect_processes(std::vector<Device>, const GpuPlace&,
                                                          std::shared_ptr<LaunchOrder>) const = 0;
  /// NCCL, which is loaded then if it can be.
  virtual ThirdParty nccl() const = 0;

 protected:
  ~GpuEngines() = default;
};

/// Those of this program, or of its plugin, which is loaded then. Throws DeviceError where there are none, or what they
/// need is missing, and says where that was looked for.
const GpuEngines& gpu_engines();

}  // namespace tutti
