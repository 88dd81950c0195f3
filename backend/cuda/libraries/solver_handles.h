// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <mutex>
#include <string_view>

namespace tutti::cuda_runtime {

/// Throws DeviceError naming operation, device, call and the status.
[[noreturn]] void raise_cusolver_error(cusolverStatus_t, const char* call, Device, std::string_view operation);

}  // namespace tutti::cuda_runtime

/// Every call of cuSOLVER goes through this: TUTTI_CUSOLVER(device, "qr", cusolverDnSgeqrf(...)).
#define TUTTI_CUSOLVER(device, operation, call)                                                    \
  do {                                                                                             \
    if (const cusolverStatus_t status_of_call = (call); status_of_call != CUSOLVER_STATUS_SUCCESS) \
      ::tutti::cuda_runtime::raise_cusolver_error(status_of_call, #call, device, operation);       \
  } while (false)

namespace tutti {

/// The handles of cuSOLVER and cuBLAS that work on one stream, made when first used. One thread at a time has them.
class SolverHandles {
 public:
  struct Held {
    std::unique_lock<std::mutex> lock;
    cusolverDnHandle_t solver;
    cublasHandle_t blas;
  };

  SolverHandles(Device device, cudaStream_t stream) : device_(device), stream_(stream) {}
  ~SolverHandles();
  SolverHandles(const SolverHandles&) = delete;
  SolverHandles& operator=(const SolverHandles&) = delete;

  Held hold(std::string_view operation);  ///< the device must be current

 private:
  void destroy();

  Device device_;
  cudaStream_t stream_;
  std::mutex mutex_;
  cusolverDnHandle_t solver_ = nullptr;
  cublasHandle_t blas_ = nullptr;
};

}  // namespace tutti
