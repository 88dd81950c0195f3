// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes the table of CPU kernels of one element type from the list of all elementwise operations.

#include <tutti/backend/cpu/element_runs.h>
#include <tutti/backend/cpu/pack_math.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/elementwise/lists.h>

#include <array>
#include <cstring>

namespace tutti {

using ElementwiseKernel = void (*)(const ElementwiseCall&, const ElementRun&);
/// By operation and part; nullptr where an operation does not take the type or has no such part.
using ElementwiseKernels = std::array<std::array<ElementwiseKernel, 4>, elementwise::AllOperations::size>;

/// Defined in elementwise_f32.cpp, elementwise_f64.cpp and elementwise_integers.cpp.
template <class T> const ElementwiseKernels& elementwise_kernels();
template <> const ElementwiseKernels& elementwise_kernels<float>();
template <> const ElementwiseKernels& elementwise_kernels<double>();
template <> const ElementwiseKernels& elementwise_kernels<std::int32_t>();
template <> const ElementwiseKernels& elementwise_kernels<std::int64_t>();
template <> const ElementwiseKernels& elementwise_kernels<bool>();

namespace elementwise_kernel {

using elementwise::Domain;
using elementwise::Needs;

struct Value {
  template <class O, class... X> TUTTI_ALWAYS_INLINE static auto apply(const O& operation, const X&... x) {
    return operation.value(x...);
  }
};
struct Gradient {
  template <class O, class... X> TUTTI_ALWAYS_INLINE static auto apply(const O& operation, const X&... x) {
    return operation.gradient(x...);
  }
};
struct GradientLhs {
  template <class O, class... X> TUTTI_ALWAYS_INLINE static auto apply(const O& operation, const X&... x) {
    return operation.gradient_lhs(x...);
  }
};
struct GradientRhs {
  template <class O, class... X> TUTTI_ALWAYS_INLINE static auto apply(const O& operation, const X&... x) {
    return operation.gradient_rhs(x...);
  }
};

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

template <class T> constexpr bool in_domain(Domain domain) {
  switch (domain) {
    case Domain::floating: return std::is_floating_point_v<T>;
    case Domain::number: return !std::is_same_v<T, bool>;
    case Domain::integral: return std::is_integral_v<T> && !std::is_same_v<T, bool>;
    case Domain::any: return true;
  }
  return false;
}

template <class O, class T> constexpr void add(std::array<ElementwiseKernel, 4>& parts) {
  using Call = ElementwiseCall::Part;
  const auto at = [&](Call part) -> ElementwiseKernel& { return parts[static_cast<std::size_t>(part)]; };
  if constexpr (in_domain<T>(O::domain)) {
    constexpr bool kBinary = requires(const O& operation, Pack<T> x) { operation.value(x, x); };
    constexpr std::size_t kInputs = kBinary ? 2 : 1;
    at(Call::value) = kernel<O, Value, T, kInputs>;
    if constexpr (std::is_floating_point_v<T> && O::needs != Needs::no_gradient) {
      constexpr std::size_t kRead = O::needs == Needs::nothing ? 1 : O::needs == Needs::output ? 2 : kInputs + 1;
      if constexpr (kBinary) {
        at(Call::gradient_lhs) = kernel<O, GradientLhs, T, kRead>;
        at(Call::gradient_rhs) = kernel<O, GradientRhs, T, kRead>;
      } else {
        at(Call::gradient) = kernel<O, Gradient, T, kRead>;
      }
    }
  }
}

template <class T> constexpr ElementwiseKernels all() {
  ElementwiseKernels kernels{};
  std::size_t index = 0;
  elementwise::AllOperations::for_each([&]<class O>(std::type_identity<O>) { add<O, T>(kernels[index++]); });
  return kernels;
}

}  // namespace elementwise_kernel
}  // namespace tutti
