// SPDX-License-Identifier: Apache-2.0
#pragma once

// The lists of types from which the CPU table, the CUDA instantiations, the autodiff rules and the generated tests are
// made, from operation_list.h.

#include <tutti/backend/elementwise/activations.h>
#include <tutti/backend/elementwise/arithmetic.h>
#include <tutti/backend/elementwise/bits.h>
#include <tutti/backend/elementwise/call.h>
#include <tutti/backend/elementwise/comparisons.h>
#include <tutti/backend/elementwise/exponential.h>
#include <tutti/backend/elementwise/powers.h>
#include <tutti/backend/elementwise/rounding.h>
#include <tutti/backend/elementwise/trigonometric.h>

#include <cstring>
#include <type_traits>

namespace tutti::elementwise {

template <class... Operations> struct List {
  static constexpr std::size_t size = sizeof...(Operations);

  /// Calls `f(std::type_identity<Operation>{})` for each, in order.
  template <class F> static constexpr void for_each(F&& f) { (f(std::type_identity<Operations>{}), ...); }
};

/// The list of all but the first, which is `void`: an include cannot say where commas stand between.
template <class, class... Operations> using ListBehind = List<Operations...>;

// clang-format off
using UnaryOperations = ListBehind<void
#define TUTTI_UNARY(Operation, ...) , Operation
#define TUTTI_UNARY_BY_HAND(Operation) , Operation
#include <tutti/backend/elementwise/operation_list.h>
>;
using BinaryOperations = ListBehind<void
#define TUTTI_BINARY(Operation, ...) , Operation
#define TUTTI_BINARY_BY_HAND(Operation) , Operation
#include <tutti/backend/elementwise/operation_list.h>
>;
using Comparisons = ListBehind<void
#define TUTTI_COMPARISON(Operation) , Operation
#include <tutti/backend/elementwise/operation_list.h>
>;
using AllOperations = ListBehind<void
#define TUTTI_UNARY(Operation, ...) , Operation
#define TUTTI_BINARY(Operation, ...) , Operation
#define TUTTI_UNARY_BY_HAND(Operation) , Operation
#define TUTTI_BINARY_BY_HAND(Operation) , Operation
#define TUTTI_COMPARISON(Operation) , Operation
#include <tutti/backend/elementwise/operation_list.h>
>;
// clang-format on

/// Place of `Operation` in `AllOperations`; the list's size if it is missing there.
template <class Operation> consteval std::uint16_t index_of() {
  std::uint16_t index = 0;
  std::uint16_t found = AllOperations::size;
  AllOperations::for_each([&]<class O>(std::type_identity<O>) {
    if (std::is_same_v<O, Operation>) found = index;
    ++index;
  });
  return found;
}

template <class Operation> inline constexpr std::size_t parameter_count =
    std::is_empty_v<Operation> ? 0 : sizeof(Operation) / sizeof(double);

template <class Operation> ElementwiseCall make_call(const Operation& operation, ElementwiseCall::Part part) {
  static_assert(index_of<Operation>() < AllOperations::size,
                "operation is missing in backend/elementwise/operation_list.h");
  static_assert(std::is_trivially_copyable_v<Operation> && parameter_count<Operation> <= ElementwiseCall::kParameters);
  ElementwiseCall call{index_of<Operation>(), part, {}};
  if constexpr (parameter_count<Operation> > 0) std::memcpy(call.parameters.data(), &operation, sizeof(Operation));
  return call;
}

/// Inverse of `make_call`, for kernels.
template <class Operation> Operation from_call(const ElementwiseCall& call) {
  Operation operation{};
  if constexpr (parameter_count<Operation> > 0)
    std::memcpy(static_cast<void*>(&operation), call.parameters.data(), sizeof(Operation));
  return operation;
}

/// True for binary operations whose value is bool.
template <class Operation> inline constexpr bool is_comparison =
    std::is_same_v<decltype(Operation{}.value(0, 0)), bool>;

}  // namespace tutti::elementwise
