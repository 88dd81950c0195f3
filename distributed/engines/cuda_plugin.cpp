// SPDX-License-Identifier: Apache-2.0
// What libtutti_cuda.so gives to the library that loads it.
#include <tutti/backend/cuda/cuda_backend.h>
#include <tutti/distributed/engines/cuda_engines.h>

#define TUTTI_JOINED_(a, b) a##b
#define TUTTI_JOINED(a, b) TUTTI_JOINED_(a, b)

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): as kCudaBackendEntry and kCudaEnginesEntry name them
[[gnu::visibility("default")]] tutti::Backend* TUTTI_JOINED(tutti_cuda_backend_, TUTTI_SYMBOL_VERSION)() {
  return new tutti::CudaBackend;
}

[[gnu::visibility("default")]] const tutti::GpuEngines* TUTTI_JOINED(tutti_cuda_engines_, TUTTI_SYMBOL_VERSION)() {
  return &tutti::cuda_engines();
}
// NOLINTEND(readability-identifier-naming)
}
