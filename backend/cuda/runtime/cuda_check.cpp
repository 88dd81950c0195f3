// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/cuda_check.h>

#include <tutti/backend/cuda/runtime/gpu_mapping.h>
#include <tutti/backend/cuda/runtime/primary_context.h>
#include <tutti/backend/raise.h>

namespace tutti::cuda_runtime {

cudaError_t settled(cudaError_t error) noexcept {
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

void raise_cuda_error(cudaError_t error, const char* call, Device device, std::string_view operation) {
  const std::string_view text = call;
  (void)settled(error);
  raise<DeviceError>("[{}] {}: {} failed: {} ({})", operation, to_string(device), text.substr(0, text.find('(')),
                     cudaGetErrorString(error), cudaGetErrorName(error));
}

std::mutex& launch_or_allocate() {
  static std::mutex& mutex = *new std::mutex;  // static arrays may outlive statics here
  return mutex;
}

CurrentDevice::CurrentDevice(Device device, std::string_view operation) {
  TUTTI_CUDA(device, operation, cudaGetDevice(&previous_));
  const int gpu = gpu_of(device);
  if (previous_ == gpu) return;
  TUTTI_CUDA(device, operation, cudaSetDevice(gpu));
  changed_ = has_context(previous_);  // else the thread has chosen none, and going back would make one
}

CurrentDevice::~CurrentDevice() {
  if (changed_) (void)settled(cudaSetDevice(previous_));  // it was current before, so it exists
}

}  // namespace tutti::cuda_runtime
