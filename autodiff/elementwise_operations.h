// SPDX-License-Identifier: Apache-2.0
#pragma once

// The elementwise operations on tensors. Their formulas, forward and gradient, are the structs of backend/elementwise.

#include <tutti/autodiff/tensor.h>

#include <type_traits>

namespace tutti {

Tensor abs(const Tensor&);
Tensor square(const Tensor&);
Tensor sqrt(const Tensor&);
Tensor exp(const Tensor&);
Tensor log(const Tensor&);
Tensor log1p(const Tensor&);
Tensor tanh(const Tensor&);
Tensor erf(const Tensor&);
Tensor sigmoid(const Tensor&);
Tensor relu(const Tensor&);
Tensor leaky_relu(const Tensor&, double slope = 0.01);
Tensor gelu(const Tensor&);
Tensor silu(const Tensor&);

Tensor maximum(const Tensor&, const Tensor&);
Tensor minimum(const Tensor&, const Tensor&);
Tensor floor_divide(const Tensor&, const Tensor&);                    ///< integers only
Tensor select(const Tensor& mask, const Tensor& a, const Tensor& b);  ///< `where`, by the name the structs use

Tensor operator-(const Tensor&);
Tensor operator+(const Tensor&, const Tensor&);
Tensor operator-(const Tensor&, const Tensor&);
Tensor operator*(const Tensor&, const Tensor&);
Tensor operator/(const Tensor&, const Tensor&);  ///< integers give f32
Tensor operator==(const Tensor&, const Tensor&);
Tensor operator!=(const Tensor&, const Tensor&);
Tensor operator<(const Tensor&, const Tensor&);
Tensor operator<=(const Tensor&, const Tensor&);
Tensor operator>(const Tensor&, const Tensor&);
Tensor operator>=(const Tensor&, const Tensor&);

// Literals on either side: 2 * x + 1.
#define TUTTI_LITERAL_OPERATOR(op)                                                                         \
  template <Literal T> Tensor operator op(const Tensor& lhs, T rhs) { return lhs op Tensor(Scalar(rhs)); } \
  template <Literal T> Tensor operator op(T lhs, const Tensor& rhs) { return Tensor(Scalar(lhs)) op rhs; }
TUTTI_LITERAL_OPERATOR(+)
TUTTI_LITERAL_OPERATOR(-)
TUTTI_LITERAL_OPERATOR(*)
TUTTI_LITERAL_OPERATOR(/)
TUTTI_LITERAL_OPERATOR(<)
TUTTI_LITERAL_OPERATOR(<=)
TUTTI_LITERAL_OPERATOR(>)
TUTTI_LITERAL_OPERATOR(>=)
TUTTI_LITERAL_OPERATOR(==)
TUTTI_LITERAL_OPERATOR(!=)
#undef TUTTI_LITERAL_OPERATOR

}  // namespace tutti
