// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/libraries/solver_handles.h>

#include <tutti/backend/cuda/libraries/cublas_check.h>
#include <tutti/backend/cuda/libraries/solver_functions.h>
#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/raise.h>

namespace tutti {

LoadedLibrary& cusolver_library() {
  static LoadedLibrary& library = *new LoadedLibrary(fmt::format("libcusolver.so.{}", CUSOLVER_VER_MAJOR));
  return library;
}

namespace cuda_runtime {

void raise_cusolver_error(cusolverStatus_t status, const char* call, Device device, std::string_view operation) {
  const std::string_view text = call;
  raise<DeviceError>("[{}] {}: cuSOLVER's {} failed with status {}", operation, to_string(device),
                     text.substr(0, text.find('(')), static_cast<int>(status));
}

}  // namespace cuda_runtime

SolverHandles::~SolverHandles() {
  if (solver_ == nullptr && blas_ == nullptr) return;
  try {
    const cuda_runtime::CurrentDevice current(device_, "solver handles");
    destroy();
  } catch (...) {  // the device is lost: its handles go all the same
    destroy();
  }
}

// Handles hold memory of the device.
void SolverHandles::destroy() {
  const std::lock_guard lock(cuda_runtime::launch_or_allocate());
  if (solver_ != nullptr) cusolverDnDestroy(solver_);
  if (blas_ != nullptr) cublasDestroy(blas_);
}

SolverHandles::Held SolverHandles::hold(std::string_view operation) {
  std::unique_lock lock(mutex_);
  if (solver_ == nullptr || blas_ == nullptr) {
    const std::lock_guard making(cuda_runtime::launch_or_allocate());
    if (solver_ == nullptr) TUTTI_CUSOLVER(device_, operation, cusolverDnCreate(&solver_));
    if (blas_ == nullptr) TUTTI_CUBLAS(device_, operation, cublasCreate(&blas_));
  }
  TUTTI_CUSOLVER(device_, operation, cusolverDnSetStream(solver_, stream_));  // each time, as it may have failed
  TUTTI_CUBLAS(device_, operation, cublasSetStream(blas_, stream_));
  return {std::move(lock), solver_, blas_};
}

}  // namespace tutti
