// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function that nvcc compiles for the host and for CUDA devices.
#ifdef __CUDACC__
#define TUTTI_HOST_DEVICE __host__ __device__
#else
#define TUTTI_HOST_DEVICE
#endif
