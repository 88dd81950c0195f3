// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the kernels' own headers ask of CUDA's, so that they compile without it.

struct CUstream_st;
using cudaStream_t = CUstream_st*;

enum cudaError { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
using cudaError_t = cudaError;

struct dim3 {
  unsigned x;
  unsigned y;
  unsigned z;
  constexpr dim3(unsigned x_threads = 1, unsigned y_threads = 1, unsigned z_threads = 1)
      : x(x_threads), y(y_threads), z(z_threads) {}
};
