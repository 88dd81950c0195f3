// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/index_fault.h>
#include <tutti/backend/device.h>

#include <mutex>

namespace tutti {

/// Where kernels of one device report indices that are out of range. Such a kernel reads and writes nothing there and
/// goes on (gather stores 0, scatter_add skips the update); the next one to wait for the device gets the error.
class IndexFaults {
 public:
  explicit IndexFaults(Device);
  ~IndexFaults();
  IndexFaults(const IndexFaults&) = delete;
  IndexFaults& operator=(const IndexFaults&) = delete;

  cuda_kernels::IndexFault* report() const noexcept { return report_; }  ///< for kernels

  /// Throws ShapeError if a fault was reported, once. Sees all of those that finished before the call.
  void check();

 private:
  Device device_;
  std::mutex mutex_;  // two threads that wait get the error once
  cuda_kernels::IndexFault* report_ = nullptr;
};

}  // namespace tutti
