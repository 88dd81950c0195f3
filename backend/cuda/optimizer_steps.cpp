// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/optimizer_steps.h>

namespace tutti {

void CudaBackend::sgd_step(const SgdStep& step, const Array& parameter, const Array& gradient, const Array& momentum) {
  if (parameter.size() == 0) return;
  const Array g = gradient.contiguous();
  stream(parameter.device()).launch("sgd_step", [&](cudaStream_t queue) {
    cuda_kernels::launch_sgd_step(queue, parameter.dtype(), step, parameter.size(), parameter.raw_data(), g.raw_data(),
                                  momentum.defined() ? momentum.raw_data() : nullptr);
  });
}

void CudaBackend::adamw_step(const AdamWStep& step, const Array& parameter, const Array& gradient, const Array& mean,
                             const Array& square) {
  if (parameter.size() == 0) return;
  const Array g = gradient.contiguous();
  stream(parameter.device()).launch("adamw_step", [&](cudaStream_t queue) {
    cuda_kernels::launch_adamw_step(queue, parameter.dtype(), step, parameter.size(), parameter.raw_data(),
                                    g.raw_data(), mean.raw_data(), square.raw_data());
  });
}

}  // namespace tutti
