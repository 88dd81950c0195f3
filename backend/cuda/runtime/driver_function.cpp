// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/driver_function.h>

#include <tutti/backend/cuda/runtime/cuda_check.h>

namespace tutti::cuda_runtime {

void* driver_function(const char* name, [[maybe_unused]] unsigned since) noexcept {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, since, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  const bool usable = settled(error) == cudaSuccess && result == cudaDriverEntryPointSuccess;
  return usable ? found : nullptr;
}

}  // namespace tutti::cuda_runtime
