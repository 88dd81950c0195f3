// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs kernels on the host: include this before the .cu files that hold them. Their launchers are then found in the
// namespace kernels_on_host, beside those of the library. What is tested is the code of the kernels, thread by thread;
// not what only a device shows: how threads run together, and its mathematics.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <barrier>
#include <thread>
#include <vector>

#undef __global__
#undef __device__
#undef __forceinline__
#undef __launch_bounds__
#undef __grid_constant__
#undef __shared__
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static
#define cuda_kernels kernels_on_host

namespace tutti::kernels_on_host {

inline dim3 gridDim;
inline thread_local dim3 blockIdx;
inline thread_local dim3 threadIdx;
inline std::barrier<>* threads_of_block = nullptr;
inline void __syncthreads() { threads_of_block->arrive_and_wait(); }

inline unsigned most_blocks = ~0U;  ///< fewer, and threads loop

/// Blocks one after another. The threads of a block too, where it has one dimension: then they may not wait for each
/// other.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, cudaStream_t, const Arguments&... arguments) {
  gridDim = dim3(std::min(blocks.x, most_blocks));
  for (unsigned block = 0; block < gridDim.x; ++block) {
    const auto run = [&](unsigned x, unsigned y) {
      blockIdx = dim3(block, 0, 0);
      threadIdx = dim3(x, y, 0);
      kernel(arguments...);
    };
    if (threads.y == 1) {
      for (unsigned x = 0; x < threads.x; ++x) run(x, 0);
      continue;
    }
    std::barrier<> together(threads.x * threads.y);
    threads_of_block = &together;
    std::vector<std::jthread> running;
    for (unsigned y = 0; y < threads.y; ++y)
      for (unsigned x = 0; x < threads.x; ++x) running.emplace_back(run, x, y);
  }
}

}  // namespace tutti::kernels_on_host
