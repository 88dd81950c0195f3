// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/custom_kernel.h>

#include <tutti/backend/cuda/cuda_backend.h>

namespace tutti {

bool CudaBackend::runs(const CustomKernel& kernel, Device) const { return bool(kernel.functions().cuda); }

void CudaBackend::custom(const CustomKernel& kernel, std::span<const Array> inputs, std::span<const Array> outputs) {
  const Device device = outputs.front().device();
  if (!kernel.functions().cuda) detail::raise_no_function(kernel, device);
  stream(device).launch(kernel.name(), [&](cudaStream_t queue) {
    kernel.functions().cuda({inputs, outputs, kernel.parameters()}, queue);
  });
}

}  // namespace tutti
