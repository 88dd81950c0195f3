// SPDX-License-Identifier: Apache-2.0
#pragma once

// The elementwise operations on tensors. Their formulas, forward and gradient, are the structs of backend/elementwise.

#include <tutti/autodiff/tensor.h>

#include <limits>
#include <type_traits>

namespace tutti {

// --- arithmetic
Tensor operator-(const Tensor&);
Tensor operator+(const Tensor&, const Tensor&);
Tensor operator-(const Tensor&, const Tensor&);
Tensor operator*(const Tensor&, const Tensor&);
Tensor operator/(const Tensor&, const Tensor&);      ///< integers give f32
Tensor operator%(const Tensor&, const Tensor&);      ///< remainder
Tensor remainder(const Tensor& a, const Tensor& b);  ///< a - b floor(a / b), as Python's %; of integers, x % 0 is 0
Tensor fmod(const Tensor& a, const Tensor& b);       ///< a - b trunc(a / b), as C's
Tensor floor_divide(const Tensor&, const Tensor&);   ///< integers only
/// a^b, special values as in C. Integers wrap; a negative power of one is 0 unless it is 1 or -1. The gradient of the
/// base is 0 where b is 0; that of the exponent is 0 where a is 0 and b is not negative, and NaN where a is negative.
Tensor pow(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor&, const Tensor&);  ///< NaN wins; equal operands share the gradient
Tensor minimum(const Tensor&, const Tensor&);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);  ///< a + weight (b - a)
Tensor abs(const Tensor&);
Tensor square(const Tensor&);
Tensor sqrt(const Tensor&);
Tensor rsqrt(const Tensor&);
Tensor reciprocal(const Tensor&);

// --- comparisons, bits and logic; NaN compares as in C. Bits are those of integers or bools; what is logical takes
// numbers for whether they are not 0.
Tensor operator==(const Tensor&, const Tensor&);
Tensor operator!=(const Tensor&, const Tensor&);
Tensor operator<(const Tensor&, const Tensor&);
Tensor operator<=(const Tensor&, const Tensor&);
Tensor operator>(const Tensor&, const Tensor&);
Tensor operator>=(const Tensor&, const Tensor&);
Tensor select(const Tensor& mask, const Tensor& a, const Tensor& b);  ///< `where`, by the name the structs use
Tensor operator&(const Tensor&, const Tensor&);
Tensor operator|(const Tensor&, const Tensor&);
Tensor operator^(const Tensor&, const Tensor&);
Tensor operator~(const Tensor&);
Tensor logical_and(const Tensor&, const Tensor&);
Tensor logical_or(const Tensor&, const Tensor&);
Tensor logical_xor(const Tensor&, const Tensor&);
Tensor logical_not(const Tensor&);
Tensor isnan(const Tensor&);
Tensor isinf(const Tensor&);
Tensor isfinite(const Tensor&);
/// With NaN and infinities replaced; those not given, by the largest and the lowest number of the dtype. Integers stay.
Tensor nan_to_num(const Tensor&, double nan = 0.0, double infinity = std::numeric_limits<double>::quiet_NaN(),
                  double minus_infinity = std::numeric_limits<double>::quiet_NaN());

// --- functions; integers are taken as f32, and outside a function's domain there is NaN
Tensor exp(const Tensor&);
Tensor exp2(const Tensor&);
Tensor expm1(const Tensor&);
Tensor log(const Tensor&);
Tensor log1p(const Tensor&);
Tensor log2(const Tensor&);
Tensor log10(const Tensor&);
Tensor logaddexp(const Tensor& a, const Tensor& b);  ///< log(exp(a) + exp(b))
Tensor sin(const Tensor&);                           ///< of radians
Tensor cos(const Tensor&);
Tensor tan(const Tensor&);
Tensor asin(const Tensor&);
Tensor acos(const Tensor&);
Tensor atan(const Tensor&);
Tensor atan2(const Tensor& a, const Tensor& b);  ///< the angle of the point (b, a); gradient 0 at the origin
Tensor sinh(const Tensor&);
Tensor cosh(const Tensor&);
Tensor tanh(const Tensor&);
Tensor asinh(const Tensor&);
Tensor acosh(const Tensor&);
Tensor atanh(const Tensor&);
Tensor erf(const Tensor&);
Tensor erfinv(const Tensor&);
Tensor sigmoid(const Tensor&);

// --- steps, whose gradient is 0, and bounds; integers stay as they are
Tensor sign(const Tensor&);
Tensor floor(const Tensor&);
Tensor ceil(const Tensor&);
Tensor round(const Tensor&);  ///< halves to even
Tensor trunc(const Tensor&);
/// min(max(x, low), high): infinite bounds are none. The gradient is 1 from bound to bound, both included. Integers
/// keep their dtype between whole bounds.
Tensor clip(const Tensor& x, const Scalar& low, const Scalar& high);

// --- activations
Tensor relu(const Tensor&);
Tensor relu6(const Tensor&);
Tensor leaky_relu(const Tensor&, double slope = 0.01);
Tensor prelu(const Tensor& x, const Tensor& slope);  ///< x > 0 ? x : slope * x; the slope is broadcast
Tensor gelu(const Tensor&);
Tensor gelu_tanh(const Tensor&);  ///< gelu by its formula with tanh
Tensor silu(const Tensor&);
Tensor mish(const Tensor&);  ///< x tanh(softplus(x)). Misra (2019)
Tensor elu(const Tensor&, double alpha = 1.0);
Tensor celu(const Tensor&, double alpha = 1.0);
Tensor selu(const Tensor&);                         ///< Klambauer et al. (2017)
Tensor softplus(const Tensor&, double beta = 1.0);  ///< log(1 + exp(beta x)) / beta
Tensor softsign(const Tensor&);                     ///< x / (1 + |x|)
Tensor log_sigmoid(const Tensor&);
Tensor hard_tanh(const Tensor&, double low = -1.0, double high = 1.0);  ///< clip, with gradient 0 at the bounds
Tensor hard_sigmoid(const Tensor&);                                     ///< min(max(x + 3, 0), 6) / 6
Tensor hard_swish(const Tensor&);                                       ///< x hard_sigmoid(x)
Tensor hard_shrink(const Tensor&, double edge = 0.5);                   ///< |x| > edge ? x : 0
Tensor soft_shrink(const Tensor&, double edge = 0.5);                   ///< sign(x) max(|x| - edge, 0)
Tensor threshold(const Tensor&, double edge, double value);             ///< x > edge ? x : value

// Literals on either side: 2 * x + 1, maximum(x, 0).
#define TUTTI_LITERAL_OPERATOR(op)                                                                         \
  template <Literal T> Tensor operator op(const Tensor& lhs, T rhs) { return lhs op Tensor(Scalar(rhs)); } \
  template <Literal T> Tensor operator op(T lhs, const Tensor& rhs) { return Tensor(Scalar(lhs)) op rhs; }
TUTTI_LITERAL_OPERATOR(+)
TUTTI_LITERAL_OPERATOR(-)
TUTTI_LITERAL_OPERATOR(*)
TUTTI_LITERAL_OPERATOR(/)
TUTTI_LITERAL_OPERATOR(%)
TUTTI_LITERAL_OPERATOR(<)
TUTTI_LITERAL_OPERATOR(<=)
TUTTI_LITERAL_OPERATOR(>)
TUTTI_LITERAL_OPERATOR(>=)
TUTTI_LITERAL_OPERATOR(==)
TUTTI_LITERAL_OPERATOR(!=)
TUTTI_LITERAL_OPERATOR(&)
TUTTI_LITERAL_OPERATOR(|)
TUTTI_LITERAL_OPERATOR(^)
#undef TUTTI_LITERAL_OPERATOR

// The variable names the result; a recorded operation like any other (in place: add_).
inline Tensor& operator+=(Tensor& x, const Tensor& y) { return x = x + y; }
inline Tensor& operator-=(Tensor& x, const Tensor& y) { return x = x - y; }
inline Tensor& operator*=(Tensor& x, const Tensor& y) { return x = x * y; }
inline Tensor& operator/=(Tensor& x, const Tensor& y) { return x = x / y; }
template <Literal T> Tensor& operator+=(Tensor& x, T y) { return x = x + y; }
template <Literal T> Tensor& operator-=(Tensor& x, T y) { return x = x - y; }
template <Literal T> Tensor& operator*=(Tensor& x, T y) { return x = x * y; }
template <Literal T> Tensor& operator/=(Tensor& x, T y) { return x = x / y; }

#define TUTTI_LITERAL_FUNCTION(name)                                                                    \
  template <Literal T> Tensor name(const Tensor& lhs, T rhs) { return name(lhs, Tensor(Scalar(rhs))); } \
  template <Literal T> Tensor name(T lhs, const Tensor& rhs) { return name(Tensor(Scalar(lhs)), rhs); }
TUTTI_LITERAL_FUNCTION(remainder)
TUTTI_LITERAL_FUNCTION(fmod)
TUTTI_LITERAL_FUNCTION(floor_divide)
TUTTI_LITERAL_FUNCTION(pow)
TUTTI_LITERAL_FUNCTION(maximum)
TUTTI_LITERAL_FUNCTION(minimum)
#undef TUTTI_LITERAL_FUNCTION
template <Literal T> Tensor lerp(const Tensor& a, const Tensor& b, T weight) {
  return lerp(a, b, Tensor(Scalar(weight)));
}

}  // namespace tutti
