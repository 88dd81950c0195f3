// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace tutti::testing {

/// output[i] = factor input[i], with a block of `threads`. Whether the launch went well: ask the runtime.
void launch_scale(cudaStream_t, const float* input, float* output, float factor, int count, unsigned threads = 128);

}  // namespace tutti::testing
