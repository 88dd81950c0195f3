// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// Throws SyncError where the library was built without NCCL, or it cannot make one.
GpuMeeting make_gpu_meeting(Device);

/// This process's part of a group of CUDA devices.
struct GpuPlace {
  GpuMeeting meeting;
  int world = 1;                                ///< devices of all processes
  int first_rank = 0;                           ///< number of this process's first device; its others follow
  std::chrono::milliseconds deadline{60'000};   ///< longest wait for all to connect
  std::chrono::milliseconds patience{300'000};  ///< longest wait for a process that does not come to a collective
  std::function<void()> look_around{};          ///< called now and then while they connect; may throw
};

/// Waits until all processes have connected, by NCCL. Throws SyncError where the library was built without it, or the
/// devices cannot be connected in time; DeviceError where two of this process lie on one GPU; what `look_around`
/// throws.
std::unique_ptr<Communicator> connect_gpus(std::vector<Device>, const GpuPlace&, std::shared_ptr<LaunchOrder>);

}  // namespace tutti
