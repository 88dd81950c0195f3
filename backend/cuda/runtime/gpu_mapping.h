// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::cuda_runtime {

/// How many devices lie on each GPU: cuda:0 ... cuda:n-1 on the first one, and so on. 1, unless the environment says
/// TUTTI_CUDA_DEVICES_PER_GPU=n: then what several devices do together runs on a machine with one GPU, too.
int devices_per_gpu() noexcept;

/// Takes that number from the environment. Throws DeviceError if it says something else. Before a device is used.
void read_devices_per_gpu();

/// The GPU that the device lies on, as the CUDA runtime numbers them: every call that asks for a number takes this one.
inline int gpu_of(Device device) noexcept { return device.index / devices_per_gpu(); }

/// The first of the devices on each GPU, in the order given.
std::vector<Device> first_of_each_gpu(std::span<const Device>);

}  // namespace tutti::cuda_runtime
