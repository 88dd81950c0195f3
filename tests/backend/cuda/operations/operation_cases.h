// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <functional>
#include <vector>

namespace tutti::testing {

/// The device of the cases.
constexpr Device kCaseDevice = cuda(1);

/// One call of an operation on a CUDA device.
struct OperationCase {
  const char* name;
  std::function<void()> run;
};

/// Those that may be part of a graph, and those that libraries queue on a stream of their own.
std::vector<OperationCase> operations_for_graphs();
std::vector<OperationCase> all_operations();

Array floats(const Shape&);       ///< f32, of any values
Array index_zeros(const Shape&);  ///< i64

}  // namespace tutti::testing
