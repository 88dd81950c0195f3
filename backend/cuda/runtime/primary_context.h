// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti::cuda_runtime {

/// True if the process has a context on the GPU: to make it current then costs nothing, and takes none of its memory.
/// True also where the driver cannot be asked.
bool has_context(int gpu) noexcept;

}  // namespace tutti::cuda_runtime
