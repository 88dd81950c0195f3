// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/gpu_engines.h>

namespace tutti {

/// The engines for CUDA devices that were built: for gpu_engines, and the plugin.
const GpuEngines& cuda_engines() noexcept;

}  // namespace tutti
