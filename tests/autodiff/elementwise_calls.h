// SPDX-License-Identifier: Apache-2.0
#pragma once

// Calls the named function of each elementwise operation: one without an overload of `call` here does not compile in
// the tests that are made from the lists.

#include <tutti/autodiff/elementwise_operations.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/elementwise/lists.h>
#include <tutti/tests/autodiff/leaves.h>

#include <type_traits>

namespace tutti {

namespace ew = elementwise;

inline Tensor call(ew::Negate, const Tensor& x) { return -x; }
inline Tensor call(ew::Abs, const Tensor& x) { return abs(x); }
inline Tensor call(ew::Square, const Tensor& x) { return square(x); }
inline Tensor call(ew::Sqrt, const Tensor& x) { return sqrt(x); }
inline Tensor call(ew::Rsqrt, const Tensor& x) { return rsqrt(x); }
inline Tensor call(ew::Exp, const Tensor& x) { return exp(x); }
inline Tensor call(ew::Exp2, const Tensor& x) { return exp2(x); }
inline Tensor call(ew::Expm1, const Tensor& x) { return expm1(x); }
inline Tensor call(ew::Log, const Tensor& x) { return log(x); }
inline Tensor call(ew::Log1p, const Tensor& x) { return log1p(x); }
inline Tensor call(ew::Log2, const Tensor& x) { return log2(x); }
inline Tensor call(ew::Log10, const Tensor& x) { return log10(x); }
inline Tensor call(ew::Sin, const Tensor& x) { return sin(x); }
inline Tensor call(ew::Cos, const Tensor& x) { return cos(x); }
inline Tensor call(ew::Tan, const Tensor& x) { return tan(x); }
inline Tensor call(ew::Asin, const Tensor& x) { return asin(x); }
inline Tensor call(ew::Acos, const Tensor& x) { return acos(x); }
inline Tensor call(ew::Atan, const Tensor& x) { return atan(x); }
inline Tensor call(ew::Sinh, const Tensor& x) { return sinh(x); }
inline Tensor call(ew::Cosh, const Tensor& x) { return cosh(x); }
inline Tensor call(ew::Tanh, const Tensor& x) { return tanh(x); }
inline Tensor call(ew::Asinh, const Tensor& x) { return asinh(x); }
inline Tensor call(ew::Acosh, const Tensor& x) { return acosh(x); }
inline Tensor call(ew::Atanh, const Tensor& x) { return atanh(x); }
inline Tensor call(ew::Erf, const Tensor& x) { return erf(x); }
inline Tensor call(ew::Erfinv, const Tensor& x) { return erfinv(x); }
inline Tensor call(ew::Floor, const Tensor& x) { return floor(x); }
inline Tensor call(ew::Ceil, const Tensor& x) { return ceil(x); }
inline Tensor call(ew::Round, const Tensor& x) { return round(x); }
inline Tensor call(ew::Trunc, const Tensor& x) { return trunc(x); }
inline Tensor call(ew::Sign, const Tensor& x) { return sign(x); }
inline Tensor call(ew::Clip operation, const Tensor& x) { return clip(x, operation.low, operation.high); }
inline Tensor call(ew::Sigmoid, const Tensor& x) { return sigmoid(x); }
inline Tensor call(ew::Relu, const Tensor& x) { return relu(x); }
inline Tensor call(ew::LeakyRelu operation, const Tensor& x) { return leaky_relu(x, operation.slope); }
inline Tensor call(ew::Gelu, const Tensor& x) { return gelu(x); }
inline Tensor call(ew::GeluTanh, const Tensor& x) { return gelu_tanh(x); }
inline Tensor call(ew::Silu, const Tensor& x) { return silu(x); }
inline Tensor call(ew::Elu operation, const Tensor& x) { return elu(x, operation.alpha); }
inline Tensor call(ew::Softplus operation, const Tensor& x) { return softplus(x, operation.beta); }
inline Tensor call(ew::HardTanh operation, const Tensor& x) { return hard_tanh(x, operation.low, operation.high); }
inline Tensor call(ew::HardSwish, const Tensor& x) { return hard_swish(x); }

inline Tensor call(ew::Add, const Tensor& a, const Tensor& b) { return a + b; }
inline Tensor call(ew::Subtract, const Tensor& a, const Tensor& b) { return a - b; }
inline Tensor call(ew::Multiply, const Tensor& a, const Tensor& b) { return a * b; }
inline Tensor call(ew::Divide, const Tensor& a, const Tensor& b) { return a / b; }
inline Tensor call(ew::FloorDivide, const Tensor& a, const Tensor& b) { return floor_divide(a, b); }
inline Tensor call(ew::Remainder, const Tensor& a, const Tensor& b) { return a % b; }
inline Tensor call(ew::Fmod, const Tensor& a, const Tensor& b) { return fmod(a, b); }
inline Tensor call(ew::Pow, const Tensor& a, const Tensor& b) { return pow(a, b); }
inline Tensor call(ew::Atan2, const Tensor& a, const Tensor& b) { return atan2(a, b); }
inline Tensor call(ew::LogAddExp, const Tensor& a, const Tensor& b) { return logaddexp(a, b); }
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
