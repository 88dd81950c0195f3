// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <cublasLt.h>

#include <string_view>

namespace tutti::cuda_runtime {

/// Throws DeviceError naming operation, device, call and cuBLAS's own text.
[[noreturn]] void raise_cublas_error(cublasStatus_t, const char* call, Device, std::string_view operation);

}  // namespace tutti::cuda_runtime

/// Every call of cuBLAS goes through this: TUTTI_CUBLAS(device, "matmul", cublasLtMatmul(...)).
#define TUTTI_CUBLAS(device, operation, call)                                                  \
  do {                                                                                         \
    if (const cublasStatus_t status_of_call = (call); status_of_call != CUBLAS_STATUS_SUCCESS) \
      ::tutti::cuda_runtime::raise_cublas_error(status_of_call, #call, device, operation);     \
  } while (false)
