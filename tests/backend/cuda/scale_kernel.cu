// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/backend/cuda/scale_kernel.h>

namespace tutti::testing {
namespace {

__global__ void scale(const float* input, float* output, float factor, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) output[i] = factor * input[i];
}

}  // namespace

void launch_scale(cudaStream_t stream, const float* input, float* output, float factor, int count, unsigned threads) {
  scale<<<(static_cast<unsigned>(count) + 127) / 128, threads, 0, stream>>>(input, output, factor, count);
}

}  // namespace tutti::testing
