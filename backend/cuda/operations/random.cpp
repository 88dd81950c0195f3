// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/dropout.h>
#include <tutti/backend/cuda/kernels/random.h>

namespace tutti {

void CudaBackend::random(const RandomCall& call, const Array& output) {
  stream(output.device()).launch("random", [&](cudaStream_t queue) {
    cuda_kernels::launch_random(queue, output.dtype(), call, output.raw_data(), output.size());
  });
}

void CudaBackend::dropout(const DropoutCall& call, const Array& input, const Array& output, const Array& kept) {
  stream(output.device()).launch("dropout", [&](cudaStream_t queue) {
    cuda_kernels::launch_dropout(queue, input.dtype(), call, input.raw_data(), input.size(), output.raw_data(),
                                 kept.data<bool>());
  });
}

void CudaBackend::dropout_gradient(double factor, const Array& kept, const Array& input, const Array& output) {
  stream(output.device()).launch("dropout_gradient", [&](cudaStream_t queue) {
    cuda_kernels::launch_scale_kept(queue, input.dtype(), factor, kept.data<bool>(), input.raw_data(), input.size(),
                                    output.raw_data());
  });
}

}  // namespace tutti
