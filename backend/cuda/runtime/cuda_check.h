// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <cuda_runtime_api.h>

#include <mutex>
#include <string_view>

namespace tutti::cuda_runtime {

/// Throws DeviceError naming operation, device, call and CUDA's own text.
[[noreturn]] void raise_cuda_error(cudaError_t, const char* call, Device, std::string_view operation);

/// CUDA remembers the error of a call until it is asked for the last one, as every launch does: whoever has dealt with
/// an error in another way calls this, or the next launch is blamed for it. Returns what it was given.
cudaError_t settled(cudaError_t) noexcept;

/// Held by whoever takes or returns memory of CUDA's, and while one collective is launched on several devices: memory
/// may wait for the kernel that is there already, and hold up the one on the next device, for which the first waits.
std::mutex& launch_or_allocate();

/// Makes a device's GPU the calling thread's current one, while it lives; CUDA calls that take no device work on that.
/// A thread that has chosen no GPU, in a process that does not use the first one, stays where it was brought.
class CurrentDevice {
 public:
  CurrentDevice(Device, std::string_view operation);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

}  // namespace tutti::cuda_runtime

/// Every call of the CUDA runtime goes through this: TUTTI_CUDA(device, "copy", cudaMemcpyAsync(...)).
#define TUTTI_CUDA(device, operation, call)                                              \
  do {                                                                                   \
    if (const cudaError_t status_of_call = (call); status_of_call != cudaSuccess)        \
      ::tutti::cuda_runtime::raise_cuda_error(status_of_call, #call, device, operation); \
  } while (false)
