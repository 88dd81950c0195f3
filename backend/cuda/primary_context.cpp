// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/primary_context.h>

#include <tutti/backend/cuda/cuda_check.h>

#include <cuda.h>

namespace tutti::cuda_runtime {

namespace {

using GetState = CUresult (*)(CUdevice, unsigned* flags, int* active);

// Through the runtime, so that nothing is linked with the driver, which a machine may lack.
GetState state_function() noexcept {
  constexpr const char* kName = "cuDevicePrimaryCtxGetState";
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  constexpr unsigned kSince = 7000;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(kName, &found, kSince, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(kName, &found, cudaEnableDefault, &result);
#endif
  const bool usable = settled(error) == cudaSuccess && result == cudaDriverEntryPointSuccess;
  return usable ? reinterpret_cast<GetState>(found) : nullptr;
}

}  // namespace

bool has_context(int gpu) noexcept {
  static const GetState state = state_function();
  unsigned flags = 0;
  int active = 0;
  return state == nullptr || state(gpu, &flags, &active) != CUDA_SUCCESS || active != 0;
}

}  // namespace tutti::cuda_runtime
