// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tutti::cuda_runtime {

/// A function of the driver, of the version that came with CUDA `since` (12000 for 12.0); null where the driver has
/// none. Asked of the runtime, so that nothing is linked with the driver, which a machine may lack.
void* driver_function(const char* name, unsigned since) noexcept;

}  // namespace tutti::cuda_runtime
