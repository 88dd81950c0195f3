// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tutti::cuda_kernels {

/// An index that a kernel found to be out of range, in host memory that the device writes to. Threads that find faults
/// at the same time overwrite each other's `index`; any of them will do, and all write the same for the rest.
struct IndexFault {
  enum class Operation : std::int64_t { none, gather, scatter_add, scatter };

  volatile Operation operation = Operation::none;
  volatile std::int64_t index = 0;
  volatile std::int64_t axis = 0;
  volatile std::int64_t length = 0;
};

}  // namespace tutti::cuda_kernels
