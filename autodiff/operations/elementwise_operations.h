// SPDX-License-Identifier: Apache-2.0
#pragma once

// The elementwise operations on tensors of any shapes that broadcast (NumPy's rules) and any dtypes: operands are
// promoted (docs/dtypes.md), the result has that dtype. Differentiable any number of times. Formulas, forward and
// gradient, and sources: the structs of backend/elementwise.

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/calls/parameter_macros.h>

#include <limits>
#include <type_traits>

namespace tutti {

// --- what is its struct and no more: abs, exp, sin, tanh, sigmoid, relu, gelu, atan2 and their like, which
// backend/elementwise/operation_list.h names and describes. Of two operands one may be a literal.
#define TUTTI_UNARY(Operation, function, ...) Tensor function(const Tensor& x TUTTI_DEFAULTS(__VA_ARGS__));
#define TUTTI_BINARY(Operation, function)                                                               \
  Tensor function(const Tensor& a, const Tensor& b);                                                    \
  template <Literal T> Tensor function(const Tensor& a, T b) { return function(a, Tensor(Scalar(b))); } \
  template <Literal T> Tensor function(T a, const Tensor& b) { return function(Tensor(Scalar(a)), b); }
#include <tutti/backend/elementwise/operation_list.h>

// --- arithmetic
Tensor operator-(const Tensor&);
Tensor operator+(const Tensor&, const Tensor&);
Tensor operator-(const Tensor&, const Tensor&);
Tensor operator*(const Tensor&, const Tensor&);
Tensor operator/(const Tensor&, const Tensor&);  ///< integers give f32
Tensor operator%(const Tensor&, const Tensor&);  ///< remainder
/// a^b, special values as in C. Integers wrap; a negative power of one is 0 unless it is 1 or -1. The gradient of the
/// base is 0 where b is 0; that of the exponent is 0 where a is 0 and b is not negative, and NaN where a is negative.
Tensor pow(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor&, const Tensor&);  ///< NaN wins; equal operands share the gradient; bools stay so
Tensor minimum(const Tensor&, const Tensor&);  ///< NaN wins; equal operands share the gradient; bools stay so
/// a + weight (b - a), exactly a at weight 0 and b at 1, where b - a is finite.
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
Tensor reciprocal(const Tensor&);  ///< 1 / x; integers give f32

// --- comparisons, bits and logic; NaN compares as in C. Bits are those of integers or bools, else DTypeError; what is
// logical takes numbers for whether they are not 0. Comparisons, isnan and its like, and what is logical give bool.
// None of these has a gradient, but select and nan_to_num.
Tensor operator==(const Tensor&, const Tensor&);
Tensor operator!=(const Tensor&, const Tensor&);
Tensor operator<(const Tensor&, const Tensor&);
Tensor operator<=(const Tensor&, const Tensor&);
Tensor operator>(const Tensor&, const Tensor&);
Tensor operator>=(const Tensor&, const Tensor&);
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
/// `where`, by the name the structs use, with its gradients.
Tensor select(const Tensor& mask, const Tensor& a, const Tensor& b);
/// Replaces NaN and infinities; infinities without a given value, by the largest and the lowest number of the dtype.
/// Integers stay. The gradient is 0 where something was replaced.
Tensor nan_to_num(const Tensor&, double nan = 0.0, double infinity = std::numeric_limits<double>::quiet_NaN(),
                  double minus_infinity = std::numeric_limits<double>::quiet_NaN());

// --- steps, whose gradient is 0, and bounds; integers stay as they are
Tensor floor(const Tensor&);
Tensor ceil(const Tensor&);
Tensor round(const Tensor&);  ///< halves to even
Tensor trunc(const Tensor&);
/// min(max(x, low), high): infinite bounds, and NaN, are none. The gradient is 1 from bound to bound, both included.
/// Integers keep their dtype between whole bounds.
Tensor clip(const Tensor& x, const Scalar& low, const Scalar& high);
/// The same between tensors, all three broadcast and promoted; an undefined one is no bound. Where high < low it is
/// high. The gradient goes to the bound where that was taken, else to x.
Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high);
template <Literal T> Tensor clip(const Tensor& x, const Tensor& low, T high) {
  return clip(x, low, Tensor(Scalar(high)));
}
template <Literal T> Tensor clip(const Tensor& x, T low, const Tensor& high) {
  return clip(x, Tensor(Scalar(low)), high);
}

// --- activations. Floating types; integers become f32, but in relu and hard_shrink, and in prelu beside an integer
// slope. At a corner the gradient is that of the left side; where there are two, it is 0, and 1 for hard_swish at 3.
Tensor relu6(const Tensor&);  ///< min(max(x, 0), 6); gradient 0 at 0 and 6
/// x > 0 ? x : slope x. A slope [c] of several numbers beside x [n, c, ...] has one for each channel, axis 1, as
/// PyTorch's, else ShapeError; any other is broadcast (to the last axis: [1, ..., l]). He et al., "Delving Deep into
/// Rectifiers" (2015)
Tensor prelu(const Tensor& x, const Tensor& slope);
Tensor mish(const Tensor&);  ///< x tanh(softplus(x)). Misra (2019)
/// x > 0 ? x : alpha (exp(x) - 1). Clevert et al. (2015)
Tensor elu(const Tensor&, double alpha = 1.0);
/// x > 0 ? x : alpha (exp(x / alpha) - 1). Barron (2017)
Tensor celu(const Tensor&, double alpha = 1.0);
/// 1.0507 elu(x, 1.6733), constants that have mean 0 and variance 1 for a fixed point. Klambauer et al. (2017)
Tensor selu(const Tensor&);
Tensor softsign(const Tensor&);                              ///< x / (1 + |x|)
Tensor log_sigmoid(const Tensor&);                           ///< log(sigmoid(x)), without overflow
Tensor hard_sigmoid(const Tensor&);                          ///< min(max(x + 3, 0), 6) / 6
Tensor hard_shrink(const Tensor&, double edge = 0.5);        ///< |x| <= edge ? 0 : x
Tensor soft_shrink(const Tensor&, double edge = 0.5);        ///< sign(x) max(|x| - edge, 0)
Tensor threshold(const Tensor&, double edge, double value);  ///< x <= edge ? value : x

// --- literals on either side: 2 * x + 1, maximum(x, 0)
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

// --- x = x + y, promoted and broadcast as there: the variable names the result of a recorded operation (in place:
// add_). AutodiffError under NoGrad for a leaf that requires a gradient: the variable would be no parameter afterwards,
// and others of the same leaf would keep their value. x[0] += 1 and what else has no name writes in place, as add_ with
// its errors and those of x[0] = 1.
#define TUTTI_ASSIGNING_OPERATOR(op, in_place)                  \
  inline Tensor& operator op##=(Tensor& x, const Tensor& y) {   \
    detail::refuse_to_lose_leaf(#op "=", #in_place, x);         \
    return x = x op y;                                          \
  }                                                             \
  template <Literal T> Tensor& operator op##=(Tensor& x, T y) { \
    detail::refuse_to_lose_leaf(#op "=", #in_place, x);         \
    return x = x op y;                                          \
  }                                                             \
  inline void operator op##=(Tensor&& x, const Tensor& y) {     \
    detail::require_part_of_variable(#op "=", x);               \
    x.in_place(y);                                              \
  }                                                             \
  template <Literal T> void operator op##=(Tensor&& x, T y) { std::move(x) op## = Tensor(Scalar(y)); }
namespace detail {
void refuse_to_lose_leaf(const char* operation, const char* in_place, const Tensor&);
void require_part_of_variable(const char* operation, const Tensor&);
}  // namespace detail
TUTTI_ASSIGNING_OPERATOR(+, add_)
TUTTI_ASSIGNING_OPERATOR(-, sub_)
TUTTI_ASSIGNING_OPERATOR(*, mul_)
TUTTI_ASSIGNING_OPERATOR(/, div_)
#undef TUTTI_ASSIGNING_OPERATOR

// --- functions of a tensor and a literal, on either side
#define TUTTI_LITERAL_FUNCTION(name)                                                                    \
  template <Literal T> Tensor name(const Tensor& lhs, T rhs) { return name(lhs, Tensor(Scalar(rhs))); } \
  template <Literal T> Tensor name(T lhs, const Tensor& rhs) { return name(Tensor(Scalar(lhs)), rhs); }
TUTTI_LITERAL_FUNCTION(pow)
TUTTI_LITERAL_FUNCTION(maximum)
TUTTI_LITERAL_FUNCTION(minimum)
TUTTI_LITERAL_FUNCTION(logical_and)
TUTTI_LITERAL_FUNCTION(logical_or)
TUTTI_LITERAL_FUNCTION(logical_xor)
#undef TUTTI_LITERAL_FUNCTION
template <Literal T> Tensor lerp(const Tensor& a, const Tensor& b, T weight) {
  return lerp(a, b, Tensor(Scalar(weight)));
}

}  // namespace tutti
