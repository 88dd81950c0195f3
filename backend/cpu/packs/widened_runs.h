// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cpu/packs/element_runs.h>

namespace tutti {

/// Runs `kernel`, made for the type that `narrow` is computed in, on a run whose inputs are of the dtype `narrow`. The
/// output is of that dtype too, narrowed once, or of another that the kernel writes.
void run_widened(DType narrow, DType output, const ElementRun&, FunctionRef<void(const ElementRun&)> kernel);

}  // namespace tutti
