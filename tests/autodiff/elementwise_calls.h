// SPDX-License-Identifier: Apache-2.0
#pragma once

// Calls the named function of each elementwise operation: one without an overload of `call` here does not compile in
// the tests that are made from the lists.

#include <tutti/autodiff/elementwise_operations.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/elementwise/lists.h>

#include <type_traits>

namespace tutti {

namespace ew = elementwise;

inline Tensor call(ew::Negate, const Tensor& x) { return -x; }
inline Tensor call(ew::Abs, const Tensor& x) { return abs(x); }
inline Tensor call(ew::Square, const Tensor& x) { return square(x); }
inline Tensor call(ew::Sqrt, const Tensor& x) { return sqrt(x); }
inline Tensor call(ew::Exp, const Tensor& x) { return exp(x); }
inline Tensor call(ew::Log, const Tensor& x) { return log(x); }
inline Tensor call(ew::Log1p, const Tensor& x) { return log1p(x); }
inline Tensor call(ew::Tanh, const Tensor& x) { return tanh(x); }
inline Tensor call(ew::Erf, const Tensor& x) { return erf(x); }
inline Tensor call(ew::Sigmoid, const Tensor& x) { return sigmoid(x); }
inline Tensor call(ew::Relu, const Tensor& x) { return relu(x); }
inline Tensor call(ew::LeakyRelu operation, const Tensor& x) { return leaky_relu(x, operation.slope); }
inline Tensor call(ew::Gelu, const Tensor& x) { return gelu(x); }
inline Tensor call(ew::Silu, const Tensor& x) { return silu(x); }

inline Tensor call(ew::Add, const Tensor& a, const Tensor& b) { return a + b; }
inline Tensor call(ew::Subtract, const Tensor& a, const Tensor& b) { return a - b; }
inline Tensor call(ew::Multiply, const Tensor& a, const Tensor& b) { return a * b; }
inline Tensor call(ew::Divide, const Tensor& a, const Tensor& b) { return a / b; }
inline Tensor call(ew::FloorDivide, const Tensor& a, const Tensor& b) { return floor_divide(a, b); }
inline Tensor call(ew::Maximum, const Tensor& a, const Tensor& b) { return maximum(a, b); }
inline Tensor call(ew::Minimum, const Tensor& a, const Tensor& b) { return minimum(a, b); }

inline Tensor call(ew::Equal, const Tensor& a, const Tensor& b) { return a == b; }
inline Tensor call(ew::NotEqual, const Tensor& a, const Tensor& b) { return a != b; }
inline Tensor call(ew::Less, const Tensor& a, const Tensor& b) { return a < b; }
inline Tensor call(ew::LessEqual, const Tensor& a, const Tensor& b) { return a <= b; }
inline Tensor call(ew::Greater, const Tensor& a, const Tensor& b) { return a > b; }
inline Tensor call(ew::GreaterEqual, const Tensor& a, const Tensor& b) { return a >= b; }

template <class Operation> inline constexpr bool kPositive =
    std::is_same_v<Operation, ew::Sqrt> || std::is_same_v<Operation, ew::Log> || std::is_same_v<Operation, ew::Log1p>;

template <class Operation> inline constexpr bool kDifferentiable = Operation::needs != ew::Needs::no_gradient;

}  // namespace tutti
