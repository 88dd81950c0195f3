// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/cuda_backend.h>
#include <tutti/backend/registry.h>

#include <memory>

namespace tutti::testing {

/// The process's CUDA backend, made anew for one machine and destroyed before it: at its old address, which the
/// registry keeps for good.
class RenewedBackend {
 public:
  RenewedBackend() {
    static CudaBackend* registered = nullptr;
    if (registered == nullptr)
      registered = static_cast<CudaBackend*>(&backend_for(DeviceKind::cuda));
    else
      std::construct_at(registered);
    backend_ = registered;
  }
  ~RenewedBackend() { std::destroy_at(backend_); }
  RenewedBackend(const RenewedBackend&) = delete;
  RenewedBackend& operator=(const RenewedBackend&) = delete;

  CudaBackend* operator->() const { return backend_; }

 private:
  CudaBackend* backend_;
};

}  // namespace tutti::testing
