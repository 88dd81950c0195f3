// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <string_view>

namespace tutti::cuda_runtime {

/// Lets kernels on each of these devices' GPUs read and write the memory of the others; on one GPU they do anyway.
/// Throws DeviceError naming two devices whose GPUs cannot.
void enable_peer_access(std::span<const Device>);

/// Queues a copy from memory of one device to another's, which peer access makes faster and which needs none. The
/// stream's device is current.
void queue_copy(std::string_view operation, cudaStream_t, Device to_device, void* to, Device from_device,
                const void* from, std::size_t bytes);

}  // namespace tutti::cuda_runtime
