// SPDX-License-Identifier: Apache-2.0
// The runtime's functions for kernels, and those that objects of nvcc call before main and at a launch.
#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <cxxabi.h>

#include <cstdlib>

namespace tutti::testing {

namespace {

using Lock = CudaMachine::Lock;

/// Kernels are registered before main, and outlive every machine: their names by the address of their host function.
std::map<const void*, std::string>& registered_kernels() {
  static std::map<const void*, std::string> kernels;
  return kernels;
}

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string readable = status == 0 ? text : name;
  std::free(text);
  return readable;
}

struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;  // between <<<...>>> and the launch

cudaError_t launch(const char* call, const void* kernel, const Configuration& with, void** arguments) {
  const auto found = registered_kernels().find(kernel);
  const std::string name = found == registered_kernels().end() ? "a kernel that is not registered" : found->second;
  return recorded_call(call, name, [&](CudaMachine& machine, Lock& lock) {
    return machine.launch(lock, {name, with.grid, with.block, with.shared_bytes, with.stream, arguments});
  });
}

}  // namespace

extern "C" {

// --- launches

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                             cudaStream_t stream) {
  return launch("cudaLaunchKernel", kernel, {grid, block, shared_bytes, stream}, arguments);
}

cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                        std::size_t shared_bytes, cudaStream_t stream) {
  return launch("cudaLaunchCooperativeKernel", kernel, {grid, block, shared_bytes, stream}, arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* with, const void* kernel, void** arguments) {
  return launch("cudaLaunchKernelExC", kernel, {with->gridDim, with->blockDim, with->dynamicSmemBytes, with->stream},
                arguments);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                               cudaStream_t stream) {
  return launch("cudaLaunchKernel", kernel, {grid, block, shared_bytes, stream}, arguments);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                    std::size_t shared_bytes, cudaStream_t stream) {
  return launch("cudaLaunchKernel", kernel, {grid, block, shared_bytes, stream}, arguments);
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

// --- what is known of kernels

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return recorded_call("cudaFuncSetAttribute", {}, [](CudaMachine&, Lock&) { return cudaSuccess; });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  return recorded_call("cudaFuncGetAttributes", {}, [&](CudaMachine&, Lock&) {
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads, std::size_t,
                                                                   unsigned) {
  return recorded_call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", {}, [&](CudaMachine&, Lock&) {
    *blocks = 2048 / threads;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                          std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared_bytes, 0);
}

// --- registration

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, std::size_t, int, int) {}

void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  registered_kernels()[function] = demangled(name);
}

}  // extern "C"

}  // namespace tutti::testing
