// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/parts/launch_configuration.h>

#include <cuda_runtime_api.h>

#ifdef __CUDACC__
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_UNROLL
#endif

namespace tutti::cuda_kernels {

// Other compilers see kernels in tests only, which bring a `launch` of their own: it runs them on the host.
#ifdef __CUDACC__
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, cudaStream_t stream,
            const Arguments&... arguments) {
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
}
#endif

}  // namespace tutti::cuda_kernels
