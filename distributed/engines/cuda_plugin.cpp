// SPDX-License-Identifier: Apache-2.0
// What libtutti_cuda.so gives to the library that loads it, as cuda_plugin.h names it.
#include <tutti/backend/cuda/cuda_backend.h>
#include <tutti/backend/cuda/facts/describe_cuda.h>
#include <tutti/backend/process/plugin.h>
#include <tutti/distributed/engines/cuda_engines.h>

// NOLINTBEGIN(readability-identifier-naming)
extern "C" [[gnu::visibility("default")]] tutti::Backend* TUTTI_PLUGIN_FUNCTION(tutti_cuda_backend)() {
  return new tutti::CudaBackend;
}

extern "C" [[gnu::visibility("default")]] const tutti::GpuEngines* TUTTI_PLUGIN_FUNCTION(tutti_cuda_engines)() {
  return &tutti::cuda_engines();
}

extern "C" [[gnu::visibility("default")]] tutti::CudaFacts* TUTTI_PLUGIN_FUNCTION(tutti_cuda_facts)() {
  return new tutti::CudaFacts(tutti::cuda_runtime::describe_cuda());
}
// NOLINTEND(readability-identifier-naming)
