// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/libraries/cudnn_library.h>
#include <tutti/backend/device.h>

#include <string_view>

namespace tutti::cuda_runtime {

/// Throws DeviceError naming operation, device, call and cuDNN's own text.
[[noreturn]] void raise_cudnn_error(cudnnStatus_t, const char* call, Device, std::string_view operation);

}  // namespace tutti::cuda_runtime

/// Every call of cuDNN goes through this: TUTTI_CUDNN(device, "conv2d", cudnn.cudnnCreate(...)).
#define TUTTI_CUDNN(device, operation, call)                                                 \
  do {                                                                                       \
    if (const cudnnStatus_t status_of_call = (call); status_of_call != CUDNN_STATUS_SUCCESS) \
      ::tutti::cuda_runtime::raise_cudnn_error(status_of_call, #call, device, operation);    \
  } while (false)
