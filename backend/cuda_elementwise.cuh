// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels on CUDA devices of elementwise structs that are no part of the library, for sources that nvcc compiles with
// -std=c++20 --expt-relaxed-constexpr:
//
//   #include <tutti/backend/cuda_elementwise.cuh>
//   #include "my_operation.h"
//   TUTTI_CUDA_ELEMENTWISE(MyOperation)
//
// A program that is linked with the object runs the struct's formulas as one kernel each, one without it as operations
// on tensors (autodiff/custom_elementwise.h). In an archive the object is linked only if something in it is called. No operation
// of the struct runs before main.

#ifndef __CUDACC__
#error "backend/cuda_elementwise.cuh is for sources that nvcc compiles"
#endif

#include <tutti/backend/elementwise/custom_formulas.h>

#include <tutti/backend/error.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace tutti {

/// Throws DeviceError if the last launch failed, naming the kernel. Called after each launch, by the source that has it:
/// each copy of the CUDA runtime in a process knows of its own launches alone.
inline void require_launched(std::string_view kernel) {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    throw DeviceError("[" + std::string(kernel) + "] the launch failed: " + cudaGetErrorString(error));
}

}  // namespace tutti

namespace tutti::elementwise {

/// Contiguous elements, or one that stands for all (step 0).
template <class T> struct CudaOperand {
  const T* data;
  std::int64_t step;
};

inline constexpr int kCudaFormulaThreads = 256;

template <class Formula, class T, class Result, class... Operands>
__global__ void __launch_bounds__(kCudaFormulaThreads)
    formula_of_elements(typename Formula::Operation operation, std::int64_t count, Result* to, Operands... from) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kCudaFormulaThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kCudaFormulaThreads + threadIdx.x; i < count; i += step)
    to[i] = static_cast<Result>(
        Formula::Part::apply(operation, static_cast<typename Formula::Element>(from.data[i * from.step])...));
}

inline bool repeats_one(const Array& array) {
  return std::all_of(array.strides().begin(), array.strides().end(), [](std::int64_t stride) { return stride == 0; });
}

/// Queues the kernel of a formula. Operands in other strides are copied before.
template <class Formula, class T, std::size_t... I>
void queue_formula(const CustomCall& call, cudaStream_t stream, std::index_sequence<I...>) {
  using Result = ResultOf<Formula, T>;
  const Array& to = call.outputs[0];
  const Array from[] = {repeats_one(call.inputs[I]) ? call.inputs[I] : call.inputs[I].contiguous()...};
  const std::int64_t blocks = (to.size() + kCudaFormulaThreads - 1) / kCudaFormulaThreads;
  formula_of_elements<Formula, T, Result>
      <<<static_cast<unsigned>(std::min<std::int64_t>(blocks, 65536)), kCudaFormulaThreads, 0, stream>>>(
          with_parameters<typename Formula::Operation>(call.parameters), to.size(), to.data<Result>(),
          CudaOperand<T>{from[I].template data<T>(), repeats_one(call.inputs[I]) ? 0 : 1}...);
  require_launched(Formula::Operation::name);
}

/// A formula's function for CUDA devices.
template <class Operation, class Part> void run_on_cuda(const CustomCall& call, void* stream) {
  visit_formula_of<Operation, Part>(call.inputs[0].dtype(), [&]<class Formula, class T>() {
    queue_formula<Formula, T>(call, static_cast<cudaStream_t>(stream), std::make_index_sequence<Formula::inputs>());
  });
}

/// Gives the program these functions for all formulas of the operation; true.
template <class Operation> bool runs_on_cuda() {
  using X = std::conditional_t<Operation::domain == Domain::bits, std::int32_t, float>;
  for_each_formula<Operation, X>([]<class Formula>(Formula) {
    cuda_formula<Operation, typename Formula::Part> = run_on_cuda<Operation, typename Formula::Part>;
  });
  return true;
}

}  // namespace tutti::elementwise

#define TUTTI_CUDA_JOIN_AGAIN(a, b) a##b
#define TUTTI_CUDA_JOIN(a, b) TUTTI_CUDA_JOIN_AGAIN(a, b)
/// Instantiates the kernels of the struct, before main; at namespace scope. The struct has a name that other sources
/// see too: it does not lie in an unnamed namespace.
#define TUTTI_CUDA_ELEMENTWISE(...)                                                 \
  [[maybe_unused]] static const bool TUTTI_CUDA_JOIN(tutti_on_cuda_, __COUNTER__) = \
      tutti::elementwise::runs_on_cuda<__VA_ARGS__>();
