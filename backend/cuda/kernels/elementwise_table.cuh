// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes the table of launchers of one element type from the list of all elementwise operations.

#include <tutti/backend/cuda/kernels/parts/element_loops.cuh>
#include <tutti/backend/cuda/kernels/elementwise.h>

namespace tutti::cuda_kernels {

/// Elements of type T, computed in the type that T is computed in.
template <class Operation, class Part, class T, class Result> struct BoundFormula {
  Operation operation;
  template <class... X> __device__ __forceinline__ Result operator()(const X&... x) const {
    return static_cast<Result>(Part::apply(operation, static_cast<const ComputedIn<T>&>(x)...));
  }
};

template <class Operation, class Part, class T, std::size_t... I>
void launch_formula(cudaStream_t stream, const ElementwiseCall& call, const ElementBatch& batch,
                    std::index_sequence<I...>) {
  using Wide = ComputedIn<T>;
  using Computed = decltype(Part::apply(Operation{}, (static_cast<void>(I), Wide{})...));
  using Result = std::conditional_t<std::is_same_v<Computed, Wide>, T, Computed>;
  launch_elements<Result, std::enable_if_t<(I >= 0), T>...>(
      stream, batch, BoundFormula<Operation, Part, T, Result>{elementwise::from_call<Operation>(call)});
}

template <class Operation, class Part, class T, std::size_t inputs>
void launch_elementwise(cudaStream_t stream, const ElementwiseCall& call, const ElementBatch& batch) {
  launch_formula<Operation, Part, T>(stream, call, batch, std::make_index_sequence<inputs>());
}

template <class T> ElementwiseLaunchers make_launchers() {
  return elementwise::make_table<ElementwiseLauncher, ComputedIn<T>>([]<class F>(F) -> ElementwiseLauncher {
    return launch_elementwise<typename F::Operation, typename F::Part, T, F::inputs>;
  });
}

}  // namespace tutti::cuda_kernels
