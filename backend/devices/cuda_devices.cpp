// SPDX-License-Identifier: Apache-2.0
// Compiled for each way of having CUDA devices, into a library of its own of which a program is linked with one:
// TUTTI_CUDA_LINKED, with the program; TUTTI_CUDA_PLUGIN, libtutti_cuda.so, loaded here; neither: not at all.
#include <tutti/backend/devices/cuda_devices.h>

#include <tutti/backend/raise.h>
#if defined(TUTTI_CUDA_LINKED)
#include <tutti/backend/cuda/cuda_backend.h>
#elif defined(TUTTI_CUDA_PLUGIN)
#include <tutti/backend/devices/cuda_plugin.h>
#endif

namespace tutti {

#if defined(TUTTI_CUDA_LINKED)

std::unique_ptr<Backend> make_cuda_backend() { return std::make_unique<CudaBackend>(); }

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

#else

std::unique_ptr<Backend> make_cuda_backend() {
  raise<DeviceError>("[device] cuda: this build has no CUDA backend (Meson option cuda)");
}

#endif

}  // namespace tutti
