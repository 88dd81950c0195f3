// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/index_meaning.h>
#include <tutti/backend/cuda/kernels/parts/index_fault.h>
#include <tutti/backend/device.h>

#include <cstddef>
#include <mutex>
#include <vector>

namespace tutti {

/// The place where kernels of one device report indices that are out of range. Such a kernel reads and writes nothing
/// there and goes on (gather stores 0, scatter skips the update); the next one to wait for the device gets the error.
class IndexFaults {
 public:
  explicit IndexFaults(Device);
  ~IndexFaults();
  IndexFaults(const IndexFaults&) = delete;
  IndexFaults& operator=(const IndexFaults&) = delete;

  /// Returns the place for reports of kernels whose indices have the current meaning (IndexScope).
  cuda_kernels::IndexFault* report();

  /// Throws ShapeError if a fault was reported, once. Sees all of those that finished before the call.
  void check();

 private:
  // Reports say nothing of meanings: each meaning has a place of its own. The first place is for indices without a
  // meaning and, should places run out, for other meanings.
  static constexpr std::size_t kPlaces = 16;

  Device device_;
  std::mutex mutex_;                                    // two threads that wait get the error once
  std::vector<IndexMeaning> meanings_{IndexMeaning{}};  // meanings of places in use, without what one call alone knows
  cuda_kernels::IndexFault* places_ = nullptr;          // [kPlaces]
};

}  // namespace tutti
