// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/facts/describe_cuda.h>

#include <tutti/backend/cuda/libraries/convolution_library_facts.h>
#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/cuda/runtime/gpu_mapping.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>

#include <fmt/format.h>

namespace tutti::cuda_runtime {

namespace {

std::string text_of(int version) { return fmt::format("{}.{}", version / 1000, version / 10 % 100); }

ThirdParty runtime() {
  int version = 0;
  const cudaError_t error = settled(cudaRuntimeGetVersion(&version));
  if (error != cudaSuccess) return {"CUDA runtime", "", cudaGetErrorString(error)};
  return {"CUDA runtime", text_of(version), fmt::format("built with {}", text_of(CUDART_VERSION))};
}

ThirdParty driver() {
  int version = 0;
  const cudaError_t error = settled(cudaDriverGetVersion(&version));
  if (error != cudaSuccess) return {"CUDA driver", "", cudaGetErrorString(error)};
  if (version == 0) return {"CUDA driver", "", "there is no driver on this machine (libcuda.so.1)"};
  return {"CUDA driver", text_of(version), "the newest version of CUDA that it takes"};
}

std::vector<GpuFacts> gpus() {
  int count = 0;
  if (settled(cudaGetDeviceCount(&count)) != cudaSuccess) return {};
  std::vector<GpuFacts> all;
  for (int gpu = 0; gpu < count; ++gpu) {
    cudaDeviceProp properties{};
    if (const cudaError_t error = settled(cudaGetDeviceProperties(&properties, gpu)); error != cudaSuccess)
      all.push_back({fmt::format("GPU that says nothing of itself: {}", cudaGetErrorString(error)), "", 0});
    else
      all.push_back({static_cast<const char*>(properties.name),
                     fmt::format("{}.{}", properties.major, properties.minor), properties.totalGlobalMem});
  }
  return all;
}

}  // namespace

CudaFacts describe_cuda() {
  CudaFacts facts;
  facts.libraries = {runtime(), driver(), convolution_library_facts()};
  try {
    registered_backend(DeviceKind::cuda).check(cuda());
    facts.gpus = gpus();
    facts.devices_per_gpu = devices_per_gpu();
  } catch (const Error& error) {
    facts.trouble = error.what();
  }
  return facts;
}

}  // namespace tutti::cuda_runtime
