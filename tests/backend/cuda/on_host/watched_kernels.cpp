// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/backend/cuda/on_host/kernel_language.h>

#include <tutti/tests/backend/cuda/on_host/watched_kernels.h>

namespace tutti::on_host {

using namespace cuda_kernels;

void launch_watched(void (*kernel)(const int*, int*), unsigned blocks, const int* from, int* to) {
  launch(kernel, blocks, 64, nullptr, from, to);
}

namespace watched {

__global__ void copy(const int* from, int* to) { to[threadIdx.x] = from[threadIdx.x]; }

__global__ void read_behind(const int* from, int* to) { to[threadIdx.x] = from[threadIdx.x + 1]; }

__global__ void write_before(const int* from, int* to) { (to - 1)[threadIdx.x] = from[threadIdx.x]; }

__global__ void write_input(const int* from, int*) { const_cast<int*>(from)[threadIdx.x] = 1; }

__global__ void write_same_place(const int* from, int* to) { to[threadIdx.x / 2] = from[threadIdx.x]; }

__global__ void reverse(const int* from, int* to) {
  __shared__ int numbers[64];
  numbers[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  to[threadIdx.x] = numbers[63 - threadIdx.x];
}

__global__ void reverse_without_barrier(const int* from, int* to) {
  __shared__ int numbers[64];
  numbers[threadIdx.x] = from[threadIdx.x];
  to[threadIdx.x] = numbers[63 - threadIdx.x];
}

__global__ void reverse_in_warps(const int* from, int* to) {
  __shared__ int numbers[64];
  numbers[threadIdx.x] = from[threadIdx.x];
  __syncwarp();
  to[threadIdx.x] = numbers[threadIdx.x ^ 31U];
}

__global__ void reverse_across_warps(const int* from, int* to) {
  __shared__ int numbers[64];
  numbers[threadIdx.x] = from[threadIdx.x];
  __syncwarp();
  to[threadIdx.x] = numbers[63 - threadIdx.x];
}

}  // namespace watched
}  // namespace tutti::on_host
