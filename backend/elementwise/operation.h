// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every elementwise operation is made of. An operation is a trivially copyable struct that is written once and
// instantiated with X = a scalar (CUDA threads), a Pack (CPU loops) and Tensor (second derivatives):
//
//   name      what errors and traces call it
//   domain    the dtypes it takes; operands are promoted into it first
//   needs     what its gradient reads: gradient(dy), gradient(x, dy) or gradient(y, dy); two inputs a, b in place of x
//   value     the forward formula; gradient (or gradient_lhs and gradient_rhs) stands right below it
//
// Parameters are double members. Branches are select(mask, a, b), whose unused argument must stay finite where a second
// derivative would multiply it by zero. Adding an operation touches its struct and backend/elementwise/lists.h.

#include <tutti/backend/host_device.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdlib>

namespace tutti::elementwise {

// Scalar maths, before any struct: Pack and Tensor overloads are found by argument only.
using std::abs;
using std::erf;
using std::exp;
using std::log;
using std::log1p;
using std::sqrt;
using std::tanh;

enum class Domain : std::uint8_t { floating, number, integral, any };  ///< number: floating or integral; any: + bool
enum class Needs : std::uint8_t { nothing, inputs, output, no_gradient };

template <class X> TUTTI_HOST_DEVICE X scalar(double value) { return X(value); }
template <class X>
  requires std::is_arithmetic_v<X>
TUTTI_HOST_DEVICE X select(bool mask, X a, X b) {
  return mask ? a : b;
}

}  // namespace tutti::elementwise
