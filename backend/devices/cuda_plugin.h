// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/plugin.h>

namespace tutti {

/// Names of what libtutti_cuda.so exports: functions that give a new Backend, the GpuEngines, and new CudaFacts.
inline constexpr const char* kCudaBackendEntry = TUTTI_PLUGIN_FUNCTION_NAME(tutti_cuda_backend);
inline constexpr const char* kCudaEnginesEntry = TUTTI_PLUGIN_FUNCTION_NAME(tutti_cuda_engines);
inline constexpr const char* kCudaFactsEntry = TUTTI_PLUGIN_FUNCTION_NAME(tutti_cuda_facts);

/// Address of a function of libtutti_cuda.so, which is loaded by the first call. Throws DeviceError that says what is
/// missing, and where it was looked for. In a library that has CUDA as a plugin only.
void* cuda_plugin_function(const char* name);

}  // namespace tutti
