// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parts of every elementwise operation. An operation is a trivially copyable struct that is written once and
// instantiated with X = a scalar (CUDA threads), a Pack (CPU loops) and Tensor (second derivatives):
//
//   name      what errors and traces call it
//   domain    the dtypes it takes; operands are promoted into it first
//   needs     what its gradient reads: gradient(dy), gradient(x, dy) or gradient(y, dy); two inputs a, b in place of x
//   value     the forward formula; gradient (or gradient_lhs and gradient_rhs) stands right below it
//   composed_gradient    optional: true where the gradient is run as operations on tensors and gets no kernel of its
//             own, which spares each backend one for each type. For what training steps seldom contain.
//
// Parameters are double members. Branches are select(mask, a, b), whose unused argument must stay finite where a second
// derivative would multiply it by zero. Nothing on the way is beyond the type's range where operands and result are
// within: no squares of what may be large, a quotient before a product
// (tests/autodiff/operations/elementwise_range_test.cpp). Adding an operation touches its struct and its line in
// backend/elementwise/operation_list.h.

#include <tutti/backend/numbers/host_device.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

namespace tutti::elementwise {

// Scalar maths, before any struct: Pack and Tensor overloads are found by argument only.
using std::abs;
using std::acos;
using std::acosh;
using std::asin;
using std::asinh;
using std::atan;
using std::atan2;
using std::atanh;
using std::ceil;
using std::cos;
using std::cosh;
using std::erf;
using std::exp;
using std::exp2;
using std::expm1;
using std::floor;
using std::fmod;
using std::log;
using std::log10;
using std::log1p;
using std::log2;
using std::nearbyint;
using std::pow;
using std::sin;
using std::sinh;
using std::sqrt;
using std::tan;
using std::tanh;
using std::trunc;

/// number: floating or integral; bits: integral or bool; any: all of them.
enum class Domain : std::uint8_t { floating, number, bits, any };
/// zero: the gradient is 0 wherever there is one, and has no formula.
enum class Needs : std::uint8_t { nothing, inputs, output, zero, no_gradient };

template <class X> TUTTI_HOST_DEVICE X scalar(double value) { return X(value); }
template <class X>
  requires std::is_arithmetic_v<X>
TUTTI_HOST_DEVICE X select(bool mask, X a, X b) {
  return mask ? a : b;
}
/// 1 / (1 + exp(-x)); of a tensor, its own operation.
template <class X> TUTTI_HOST_DEVICE X sigmoid(const X& x) { return scalar<X>(1) / (scalar<X>(1) + exp(-x)); }

template <class Operation> inline constexpr bool has_composed_gradient = [] {
  if constexpr (requires { Operation::composed_gradient; })
    return Operation::composed_gradient;
  else
    return false;
}();
/// True if the operation has kernels of its gradient.
template <class Operation> inline constexpr bool has_gradient_kernel =
    Operation::needs != Needs::no_gradient && Operation::needs != Needs::zero && !has_composed_gradient<Operation>;

}  // namespace tutti::elementwise
