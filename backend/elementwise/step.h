// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/elementwise/call.h>

#include <vector>

namespace tutti {

/// One call of `Backend::elementwise` with its operands, as a chain has it (`Backend::elementwise_chain`).
struct ElementwiseStep {
  ElementwiseCall call;       ///< the operation, which of its formulas, and parameters
  std::vector<Array> inputs;  ///< 1 to 3, broadcast to the output's shape
  Array output;               ///< contiguous
};

}  // namespace tutti
