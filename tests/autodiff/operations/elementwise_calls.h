// SPDX-License-Identifier: Apache-2.0
#pragma once

// Calls the named function of each elementwise operation: one by hand without an overload of `call` here does not
// compile in the tests that are made from the lists.

#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/elementwise_operations.h>
#include <tutti/backend/calls/parameter_macros.h>
#include <tutti/backend/elementwise/lists.h>
#include <tutti/tests/autodiff/leaves.h>

#include <type_traits>

namespace tutti {

namespace ew = elementwise;

#define TUTTI_MEMBER(parameter, value) operation.parameter
#define TUTTI_UNARY(Operation, function, ...)                                     \
  inline Tensor call([[maybe_unused]] ew::Operation operation, const Tensor& x) { \
    return function(x __VA_OPT__(, ) TUTTI_EACH_OF(TUTTI_MEMBER, __VA_ARGS__));   \
  }
#define TUTTI_BINARY(Operation, function) \
  inline Tensor call(ew::Operation, const Tensor& a, const Tensor& b) { return function(a, b); }
#include <tutti/backend/elementwise/operation_list.h>
#undef TUTTI_MEMBER

inline Tensor call(ew::Negate, const Tensor& x) { return -x; }
inline Tensor call(ew::Floor, const Tensor& x) { return floor(x); }
inline Tensor call(ew::Ceil, const Tensor& x) { return ceil(x); }
inline Tensor call(ew::Round, const Tensor& x) { return round(x); }
inline Tensor call(ew::Trunc, const Tensor& x) { return trunc(x); }
inline Tensor call(ew::Clip operation, const Tensor& x) { return clip(x, operation.low, operation.high); }
inline Tensor call(ew::Elu operation, const Tensor& x) { return elu(x, operation.alpha); }

inline Tensor call(ew::Add, const Tensor& a, const Tensor& b) { return a + b; }
inline Tensor call(ew::Subtract, const Tensor& a, const Tensor& b) { return a - b; }
inline Tensor call(ew::Multiply, const Tensor& a, const Tensor& b) { return a * b; }
inline Tensor call(ew::Divide, const Tensor& a, const Tensor& b) { return a / b; }
inline Tensor call(ew::Pow, const Tensor& a, const Tensor& b) { return pow(a, b); }
inline Tensor call(ew::Maximum, const Tensor& a, const Tensor& b) { return maximum(a, b); }
inline Tensor call(ew::Minimum, const Tensor& a, const Tensor& b) { return minimum(a, b); }
inline Tensor call(ew::BitAnd, const Tensor& a, const Tensor& b) { return a & b; }
inline Tensor call(ew::BitOr, const Tensor& a, const Tensor& b) { return a | b; }
inline Tensor call(ew::BitXor, const Tensor& a, const Tensor& b) { return a ^ b; }

inline Tensor call(ew::Equal, const Tensor& a, const Tensor& b) { return a == b; }
inline Tensor call(ew::NotEqual, const Tensor& a, const Tensor& b) { return a != b; }
inline Tensor call(ew::Less, const Tensor& a, const Tensor& b) { return a < b; }
inline Tensor call(ew::LessEqual, const Tensor& a, const Tensor& b) { return a <= b; }
inline Tensor call(ew::Greater, const Tensor& a, const Tensor& b) { return a > b; }
inline Tensor call(ew::GreaterEqual, const Tensor& a, const Tensor& b) { return a >= b; }

template <class Operation, class... Others> inline constexpr bool kOneOf = (std::is_same_v<Operation, Others> || ...);

/// A leaf of at most 15 numbers at which the operation, or its left side, is smooth.
template <class Operation> Tensor smooth_numbers(const Shape& shape, std::uint64_t seed) {
  if constexpr (kOneOf<Operation, ew::Acosh>)  // beyond 1
    return leaf((spread(shape, seed, true) + 1).template to_vector<double>(), shape);
  else if constexpr (kOneOf<Operation, ew::Asin, ew::Acos, ew::Atanh, ew::Erfinv, ew::Tan>)  // between -1 and 1
    return leaf((spread(shape, seed) / 2).template to_vector<double>(), shape);
  else
    return spread(shape, seed,
                  kOneOf<Operation, ew::Sqrt, ew::Rsqrt, ew::Log, ew::Log1p, ew::Log2, ew::Log10, ew::Pow>);
}

template <class Operation> inline constexpr bool kDifferentiable = Operation::needs != ew::Needs::no_gradient;

}  // namespace tutti
