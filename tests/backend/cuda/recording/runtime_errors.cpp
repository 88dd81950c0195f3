// SPDX-License-Identifier: Apache-2.0
// The runtime's functions for errors, in place of NVIDIA's library.
#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <utility>

namespace tutti::testing {

using Lock = CudaMachine::Lock;

extern "C" {

cudaError_t cudaGetLastError() {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return cudaErrorNoDevice;
  const Lock lock(machine->mutex);
  const cudaError_t error = machine->enter("cudaGetLastError", {}, false);
  const cudaError_t earlier = std::exchange(machine->thread().error, cudaSuccess);
  return error == cudaSuccess ? earlier : error;
}

cudaError_t cudaPeekAtLastError() {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return cudaErrorNoDevice;
  const Lock lock(machine->mutex);
  const cudaError_t error = machine->enter("cudaPeekAtLastError", {}, false);
  return error == cudaSuccess ? machine->thread().error : error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorAssert: return "cudaErrorAssert";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    default: return "cudaErrorUnknown";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorNotReady: return "device not ready";
    default: return "an error of the recording machine";
  }
}

}  // extern "C"

}  // namespace tutti::testing
