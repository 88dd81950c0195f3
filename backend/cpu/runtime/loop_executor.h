// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/runtime/function_ref.h>
#include <tutti/backend/cpu_executor.h>

#include <utility>

namespace tutti {

/// A program's executor in the place of one device's workers, held to its word: whatever it does, no part runs when a
/// loop is over, and each has been called once, or that is an error.
class LoopExecutor {
 public:
  LoopExecutor(Device device, CpuExecutor executor) : device_(device), executor_(std::move(executor)) {}

  /// Has the executor call `help` in `parts` parts; `help` throws nothing. Called by one thread at a time. Throws what
  /// the executor throws, and `Error` where it has broken its word.
  void run(int parts, FunctionRef<void()> help) const;

 private:
  Device device_;
  CpuExecutor executor_;
};

}  // namespace tutti
