// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/primary_context.h>

#include <tutti/backend/cuda/runtime/driver_function.h>

#include <cuda.h>

namespace tutti::cuda_runtime {

bool has_context(int gpu) noexcept {
  using GetState = CUresult (*)(CUdevice, unsigned* flags, int* active);
  static const auto state = reinterpret_cast<GetState>(driver_function("cuDevicePrimaryCtxGetState", 7000));
  unsigned flags = 0;
  int active = 0;
  return state == nullptr || state(gpu, &flags, &active) != CUDA_SUCCESS || active != 0;
}

}  // namespace tutti::cuda_runtime
