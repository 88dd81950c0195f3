// SPDX-License-Identifier: Apache-2.0
// Compiled for each way of having CUDA devices, into a library of its own of which a program is linked with one:
// TUTTI_CUDA_LINKED, with the program; TUTTI_CUDA_PLUGIN, libtutti_cuda.so, loaded here; neither: not at all.
#include <tutti/backend/devices/cuda_devices.h>

#include <tutti/backend/devices/device_facts.h>
#include <tutti/backend/raise.h>
#if defined(TUTTI_CUDA_LINKED)
#include <tutti/backend/cuda/cuda_backend.h>
#include <tutti/backend/cuda/facts/describe_cuda.h>
#elif defined(TUTTI_CUDA_PLUGIN)
#include <tutti/backend/devices/cuda_plugin.h>
#endif

namespace tutti {

#if defined(TUTTI_CUDA_LINKED)

std::unique_ptr<Backend> make_cuda_backend() { return std::make_unique<CudaBackend>(); }

CudaFacts cuda_facts() { return cuda_runtime::describe_cuda(); }

#elif defined(TUTTI_CUDA_PLUGIN)

std::unique_ptr<Backend> make_cuda_backend() {
  using Entry = Backend* (*)();
  return std::unique_ptr<Backend>(reinterpret_cast<Entry>(cuda_plugin_function(kCudaBackendEntry))());
}

void* cuda_plugin_function(const char* name) {
  static Plugin& plugin = *new Plugin("libtutti_cuda.so");  // what it made may be used as late as the process ends
  void* const function = plugin.function(name);
  if (function == nullptr) raise<DeviceError>("[device] this program has no CUDA devices: {}", plugin.trouble());
  return function;
}

CudaFacts cuda_facts() try {
  return *std::unique_ptr<CudaFacts>(reinterpret_cast<CudaFacts* (*)()>(cuda_plugin_function(kCudaFactsEntry))());
} catch (const DeviceError& error) {
  return {.trouble = error.what(), .gpus = {}, .libraries = {}};
}

#else

namespace {

constexpr const char* kNoCuda = "cuda: this build has no CUDA backend (Meson option cuda)";

}  // namespace

std::unique_ptr<Backend> make_cuda_backend() { raise<DeviceError>("[device] {}", kNoCuda); }

CudaFacts cuda_facts() { return {.trouble = kNoCuda, .gpus = {}, .libraries = {}}; }

#endif

}  // namespace tutti
