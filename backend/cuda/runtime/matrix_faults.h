// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/matrices.h>
#include <tutti/backend/device.h>

#include <cstddef>
#include <mutex>
#include <string_view>
#include <vector>

namespace tutti {

/// The place where kernels of one device report matrices without a result; the kernels go on, and what they write of
/// these means nothing. The next one to wait for the device gets the error.
class MatrixFaults {
 public:
  explicit MatrixFaults(Device);
  ~MatrixFaults();
  MatrixFaults(const MatrixFaults&) = delete;
  MatrixFaults& operator=(const MatrixFaults&) = delete;

  /// Returns the place where kernels of that operation report. The error names the operation, a literal.
  cuda_kernels::MatrixFault* report(std::string_view operation);

  /// Throws LinearAlgebraError if a fault was reported, once. Sees all of those that finished before the call.
  void check();

 private:
  // Each operation has a place of its own; should places run out, others share the last.
  static constexpr std::size_t kPlaces = 32;

  Device device_;
  std::mutex mutex_;  // two threads that wait get the error once
  std::vector<std::string_view> operations_;
  cuda_kernels::MatrixFault* places_ = nullptr;  // [kPlaces]
};

}  // namespace tutti
