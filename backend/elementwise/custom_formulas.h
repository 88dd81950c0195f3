// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels of elementwise structs that are no part of the library (autodiff/custom_elementwise.h): each formula is a
// CustomKernel, whose loops for CPU devices are instantiated here, where the program is compiled, and whose launches on
// CUDA devices in backend/cuda_elementwise.cuh.

#include <tutti/backend/custom_kernel.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/elementwise/element_run.h>
#include <tutti/backend/elementwise/formulas.h>
#include <tutti/backend/elementwise/lanes.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti::elementwise {

/// True if the library has the operation; else it is a program's own.
template <class Operation> inline constexpr bool is_listed = index_of<Operation>() < AllOperations::size;

/// The type of a formula's results for elements of type T: T, or bool where it compares.
template <class Formula, std::size_t... I> auto result_of(std::index_sequence<I...>) {
  using X = typename Formula::Element;
  return Formula::Part::apply(typename Formula::Operation{}, (static_cast<void>(I), X{})...);
}
template <class Formula, class T> using ResultOf =
    std::conditional_t<std::is_same_v<decltype(result_of<Formula>(std::make_index_sequence<Formula::inputs>())), bool>,
                       bool, T>;

/// Calls `f.template operator()<Formula, T>()` for elements of the dtype, with the operation's formula for what they
/// are computed in. Nothing for a dtype that is not of its domain.
template <class Operation, class Part, class F> void visit_formula_of(DType dtype, const F& f) {
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    for_each_formula<Operation, ComputedIn<T>>([&]<class Formula>(Formula) {
      if constexpr (std::is_same_v<typename Formula::Part, Part>) f.template operator()<Formula, T>();
    });
  });
}

template <class Operation> std::vector<double> parameters_of(const Operation& operation) {
  static_assert(std::is_trivially_copyable_v<Operation> &&
                    (std::is_empty_v<Operation> || sizeof(Operation) % sizeof(double) == 0),
                "the parameters of an elementwise operation are double members");
  std::vector<double> parameters(parameter_count<Operation>);
  if constexpr (parameter_count<Operation> > 0) std::memcpy(parameters.data(), &operation, sizeof(Operation));
  return parameters;
}
/// The operation with the parameters of another, as `parameters_of` tells them.
template <class Operation> Operation with_parameters(std::span<const double> parameters) {
  Operation operation{};
  if constexpr (parameter_count<Operation> > 0)
    std::memcpy(static_cast<void*>(&operation), parameters.data(), sizeof(Operation));
  return operation;
}

template <class X> void store_results(const Lanes<X>& results, X* to) { results.store(to); }
template <class X> void store_results(const LanesMask<X>& results, bool* to) {
  const auto* const lanes = reinterpret_cast<const LaneBits<X>*>(results.part);
  for (std::int64_t i = 0; i < Lanes<X>::kCount; ++i) to[i] = lanes[i] != 0;
}

/// A loop over elements of the type that is computed in. An input of `step` 0 stands for all. What the last lanes have
/// no elements for is computed with the last one.
template <class Formula, class Result, std::size_t... I>
void run_lanes(const typename Formula::Operation& operation, std::int64_t count, Result* to,
               const typename Formula::Element* const (&from)[sizeof...(I)], const std::int64_t (&step)[sizeof...(I)],
               std::index_sequence<I...>) {
  using X = typename Formula::Element;
  constexpr std::int64_t kLanes = Lanes<X>::kCount;
  X repeated[sizeof...(I)][kLanes];
  const X* input[sizeof...(I)];
  for (std::size_t i = 0; i < sizeof...(I); ++i) {
    if (step[i] == 0) std::fill_n(repeated[i], kLanes, *from[i]);
    input[i] = step[i] == 0 ? repeated[i] : from[i];
  }
  std::int64_t done = 0;
  for (; done + kLanes <= count; done += kLanes)
    store_results(Formula::Part::apply(operation, Lanes<X>::at(input[I] + done * step[I])...), to + done);
  if (done == count) return;
  X last[sizeof...(I)][kLanes];
  for (std::size_t i = 0; i < sizeof...(I); ++i)
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      last[i][lane] = input[i][std::min(done + lane, count - 1) * step[i]];
  Result results[kLanes];
  store_results(Formula::Part::apply(operation, Lanes<X>::at(last[I])...), results);
  std::copy_n(results, count - done, to + done);
}

/// Converts up to `most` elements: as many as is known to the compiler, which then makes vectors of them.
template <std::int64_t most, class From, class To> void convert(const From* from, std::int64_t count, To* to) {
  if (count == most) {
    for (std::int64_t i = 0; i < most; ++i) to[i] = static_cast<To>(from[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
  }
}

/// A loop over elements of type T, of which narrow ones are widened in blocks.
template <class Formula, class T, std::size_t... I>
void run_formula(const typename Formula::Operation& operation, const ElementRun& run, std::index_sequence<I...> all) {
  using X = typename Formula::Element;
  using Result = ResultOf<Formula, T>;
  const std::int64_t step[] = {run.repeated[I] ? 0 : 1 ...};
  if constexpr (std::is_same_v<T, X>) {
    const X* const from[] = {run.from<X>(I)...};
    run_lanes<Formula>(operation, run.count, run.to<Result>(), from, step, all);
  } else {
    constexpr std::int64_t kBlock = 256;
    X inputs[sizeof...(I)][kBlock];
    ResultOf<Formula, X> results[kBlock];
    const X* const from[] = {inputs[I]...};
    for (std::int64_t done = 0; done < run.count; done += kBlock) {
      const std::int64_t count = std::min(kBlock, run.count - done);
      for (std::size_t i = 0; i < sizeof...(I); ++i)
        convert<kBlock>(run.from<T>(i) + done * step[i], step[i] == 0 ? 1 : count, inputs[i]);
      run_lanes<Formula>(operation, count, results, from, step, all);
      convert<kBlock>(results, count, run.to<Result>() + done);
    }
  }
}

/// A formula's function for CPU devices.
template <class Operation, class Part> void run_on_cpu(const CustomCall& call, const CpuThreads& threads) {
  const auto operation = with_parameters<Operation>(call.parameters);
  visit_formula_of<Operation, Part>(call.inputs[0].dtype(), [&]<class Formula, class T>() {
    threads.for_each_run(call.outputs[0], call.inputs, [&](const ElementRun& run) {
      run_formula<Formula, T>(operation, run, std::make_index_sequence<Formula::inputs>());
    });
  });
}

/// A formula's function for CUDA devices; null until TUTTI_CUDA_ELEMENTWISE (backend/cuda_elementwise.cuh) gives it.
using CudaFormula = void (*)(const CustomCall&, void* stream);
template <class Operation, class Part> inline CudaFormula cuda_formula = nullptr;

/// The kernel of a formula, the same one for each call. Its outputs have the inputs' dtype, or bool.
template <class Part, class Operation> CustomKernel custom_kernel(const Operation& operation) {
  static const CustomKernel& kernel =
      *new CustomKernel(Operation::name, {.cpu = run_on_cpu<Operation, Part>, .cuda = cuda_formula<Operation, Part>});
  return kernel.with(parameters_of(operation));
}

/// The dtype of a formula's result.
template <class Operation, class Part> DType result_dtype(DType dtype) {
  DType result = dtype;
  visit_formula_of<Operation, Part>(dtype, [&]<class Formula, class T>() { result = dtype_of<ResultOf<Formula, T>>; });
  return result;
}

}  // namespace tutti::elementwise
