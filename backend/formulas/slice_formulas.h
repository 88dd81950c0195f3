// SPDX-License-Identifier: Apache-2.0
#pragma once

// How one element of several devices' arrays becomes one: result(add(contribution(a), contribution(b))), with as many
// additions as the tree of the devices has (backend/formulas/sum_tree.h). One code for CPU loops and CUDA kernels, so
// that engines agree to the bit; neither may contract.

#include <tutti/backend/dtype.h>
#include <tutti/backend/elementwise/operation.h>
#include <tutti/backend/numbers/short_float.h>

#include <cmath>
#include <type_traits>

namespace tutti {

template <class T> struct DividedBy {
  T denominator;
  TUTTI_HOST_DEVICE T operator()(T sum) const { return sum / denominator; }
};
/// The same for a power of two, to the bit.
template <class T> struct TimesReciprocal {
  T reciprocal;
  TUTTI_HOST_DEVICE T operator()(T sum) const { return sum * reciprocal; }
};

/// Calls `f` with the cheapest of them, for loops that are bound by arithmetic.
template <class T, class F> decltype(auto) with_cheapest_quotient(double denominator, F&& f) {
  const auto divisor = static_cast<T>(denominator);
  int exponent = 0;
  const bool exact =
      std::is_floating_point_v<T> ? std::frexp(static_cast<double>(divisor), &exponent) == 0.5 : divisor == T(1);
  return exact ? f(TimesReciprocal<T>{T(1) / divisor}) : f(DividedBy<T>{divisor});
}

template <class T, class Quotient = DividedBy<ComputedIn<T>>> struct PlainSum {
  using Value = T;
  using Sum = ComputedIn<T>;
  Quotient quotient;
  TUTTI_HOST_DEVICE Sum contribution(T x) const { return static_cast<Sum>(x); }
  TUTTI_HOST_DEVICE Sum add(Sum sum, Sum x) const { return sum + x; }
  TUTTI_HOST_DEVICE T result(Sum sum) const { return static_cast<T>(quotient(sum)); }
};

/// Each contribution and the result make one journey in 16 bits.
template <class Wire, class Quotient = DividedBy<float>> struct TravelledSum {
  using Value = float;
  using Sum = float;
  float scale;  ///< factor of what travels to the sum; the quotient takes it back
  Quotient quotient;
  TUTTI_HOST_DEVICE float contribution(float x) const { return rounded<Wire>(x * scale); }
  TUTTI_HOST_DEVICE float add(float sum, float x) const { return sum + x; }
  TUTTI_HOST_DEVICE float result(float sum) const { return rounded<Wire>(quotient(sum)); }
};

/// NaN wins: it is unequal to itself.
template <class T> struct Largest {
  using Value = T;
  using Sum = ComputedIn<T>;
  TUTTI_HOST_DEVICE Sum contribution(T x) const { return static_cast<Sum>(x); }
  TUTTI_HOST_DEVICE Sum add(Sum a, Sum b) const { return a > b || a != a ? a : b; }
  TUTTI_HOST_DEVICE T result(Sum x) const { return static_cast<T>(x); }
};
template <class T> struct Smallest {
  using Value = T;
  using Sum = ComputedIn<T>;
  TUTTI_HOST_DEVICE Sum contribution(T x) const { return static_cast<Sum>(x); }
  TUTTI_HOST_DEVICE Sum add(Sum a, Sum b) const { return a < b || a != a ? a : b; }
  TUTTI_HOST_DEVICE T result(Sum x) const { return static_cast<T>(x); }
};

}  // namespace tutti
