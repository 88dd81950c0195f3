// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/runtime/gpu_mapping.h>

#include <cstdlib>

namespace tutti::testing {

/// TUTTI_CUDA_DEVICES_PER_GPU for the backends that are made meanwhile.
class DevicesPerGpu {
 public:
  explicit DevicesPerGpu(const char* number) { setenv(kVariable, number, 1); }
  ~DevicesPerGpu() {
    unsetenv(kVariable);
    cuda_runtime::read_devices_per_gpu();  // for streams that are made without a backend
  }
  DevicesPerGpu(const DevicesPerGpu&) = delete;
  DevicesPerGpu& operator=(const DevicesPerGpu&) = delete;

 private:
  static constexpr const char* kVariable = "TUTTI_CUDA_DEVICES_PER_GPU";
};

}  // namespace tutti::testing
