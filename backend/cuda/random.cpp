// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/cuda_backend.h>

#include <tutti/backend/cuda/kernels/random.h>

namespace tutti {

void CudaBackend::random(const RandomCall& call, const Array& output) {
  stream(output.device()).launch("random", [&](cudaStream_t queue) {
    cuda_kernels::launch_random(queue, output.dtype(), call, output.raw_data(), output.size());
  });
}

}  // namespace tutti
