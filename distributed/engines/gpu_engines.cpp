// SPDX-License-Identifier: Apache-2.0
// Compiled for each way of having CUDA devices, as backend/devices/cuda_devices.cpp.
#include <tutti/distributed/engines/gpu_engines.h>

#include <tutti/backend/raise.h>
#if defined(TUTTI_CUDA_LINKED)
#include <tutti/distributed/engines/cuda_engines.h>
#elif defined(TUTTI_CUDA_PLUGIN)
#include <tutti/backend/devices/cuda_plugin.h>
#endif

namespace tutti {

#if defined(TUTTI_CUDA_LINKED)

const GpuEngines& gpu_engines() { return cuda_engines(); }

#elif defined(TUTTI_CUDA_PLUGIN)

const GpuEngines& gpu_engines() {
  using Entry = const GpuEngines* (*)();
  static const GpuEngines& engines = *reinterpret_cast<Entry>(cuda_plugin_function(kCudaEnginesEntry))();
  return engines;
}

#else

const GpuEngines& gpu_engines() {
  raise<DeviceError>("[sync] no engine was built for CUDA devices (Meson option cuda): the local engine takes CPUs");
}

#endif

}  // namespace tutti
