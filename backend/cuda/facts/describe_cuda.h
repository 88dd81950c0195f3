// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/devices/device_facts.h>

namespace tutti::cuda_runtime {

/// Versions of what CUDA needs here, and the GPUs, or why there are none. Makes no context on any.
CudaFacts describe_cuda();

}  // namespace tutti::cuda_runtime
