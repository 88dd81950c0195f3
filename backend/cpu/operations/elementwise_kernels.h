// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes the table of CPU kernels of one element type from the list of all elementwise operations.

#include <tutti/backend/cpu/packs/element_runs.h>
#include <tutti/backend/cpu/packs/pack_functions.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/elementwise/formulas.h>

#include <cstring>

namespace tutti {

using ElementwiseKernel = void (*)(const ElementwiseCall&, const ElementRun&);
using ElementwiseKernels = elementwise::Table<ElementwiseKernel>;

/// Defined in elementwise_f32.cpp, elementwise_f64.cpp and elementwise_integers.cpp.
template <class T> const ElementwiseKernels& elementwise_kernels();
template <> const ElementwiseKernels& elementwise_kernels<float>();
template <> const ElementwiseKernels& elementwise_kernels<double>();
template <> const ElementwiseKernels& elementwise_kernels<std::int32_t>();
template <> const ElementwiseKernels& elementwise_kernels<std::int64_t>();
template <> const ElementwiseKernels& elementwise_kernels<bool>();

namespace elementwise_kernel {

template <class T> TUTTI_ALWAYS_INLINE void store_result(const Pack<T>& result, std::byte* to, std::int64_t position) {
  result.store(reinterpret_cast<T*>(to) + position);
}
template <class T>
TUTTI_ALWAYS_INLINE void store_result(const PackMask<T>& result, std::byte* to, std::int64_t position) {
  store_bools(result, reinterpret_cast<bool*>(to) + position);
}
template <class T>
TUTTI_ALWAYS_INLINE void store_result(const Pack<T>& result, std::byte* to, std::int64_t position, std::int64_t count) {
  result.store_partial(reinterpret_cast<T*>(to) + position, count);
}
template <class T> TUTTI_ALWAYS_INLINE void store_result(const PackMask<T>& result, std::byte* to,
                                                         std::int64_t position, std::int64_t count) {
  bool bools[kPackBytes / sizeof(MaskLane<T>)];
  store_bools(result, bools);
  std::memcpy(to + position, bools, static_cast<std::size_t>(count));
}

template <class O, class Part, class T, std::size_t... I>
void compute(const ElementwiseCall& call, const ElementRun& run, std::index_sequence<I...>) {
  constexpr std::int64_t kLanes = Pack<T>::kLanes;
  const O operation = elementwise::from_call<O>(call);
  // A repeated input is read from a pack of itself, again and again.
  Pack<T> repeated[sizeof...(I)];
  const T* input[sizeof...(I)];
  std::int64_t step[sizeof...(I)];
  for (std::size_t i = 0; i < sizeof...(I); ++i) {
    if (run.repeated[i]) repeated[i] = Pack<T>(*run.from<T>(i));
    input[i] = run.repeated[i] ? reinterpret_cast<const T*>(&repeated[i]) : run.from<T>(i);
    step[i] = run.repeated[i] ? 0 : 1;
  }
  std::int64_t position = 0;
  for (; position + kLanes <= run.count; position += kLanes)
    store_result(Part::apply(operation, Pack<T>::load(input[I] + position * step[I])...), run.output, position);
  const std::int64_t rest = run.count - position;
  if (rest > 0)
    store_result(Part::apply(operation, Pack<T>::load_partial(input[I] + position * step[I], rest)...), run.output,
                 position, rest);
}

template <class O, class Part, class T, std::size_t inputs>
void kernel(const ElementwiseCall& call, const ElementRun& run) {
  compute<O, Part, T>(call, run, std::make_index_sequence<inputs>());
}

template <class T> constexpr ElementwiseKernels all() {
  return elementwise::make_table<ElementwiseKernel, T>(
      []<class F>(F) -> ElementwiseKernel { return kernel<typename F::Operation, typename F::Part, T, F::inputs>; });
}

}  // namespace elementwise_kernel
}  // namespace tutti
