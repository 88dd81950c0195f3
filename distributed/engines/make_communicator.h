// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>
#include <tutti/distributed/sync_options.h>

#include <chrono>
#include <memory>
#include <span>

namespace tutti {

/// The engine for these devices: local on CPUs; peer for CUDA devices of one GPU; for one on each of several GPUs NCCL,
/// or peer if that was not built. Throws DeviceError, naming devices, if there is none for them.
/// `fail_after`: for engines that watch what the devices do, as in SyncOptions.
std::unique_ptr<Communicator> make_communicator(std::span<const Device>,
                                                std::chrono::milliseconds fail_after = SyncOptions{}.fail_after);

}  // namespace tutti
