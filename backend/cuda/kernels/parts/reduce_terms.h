// SPDX-License-Identifier: Apache-2.0
#pragma once

// Terms that reductions accumulate. Each has
//   Accumulated, identity()   what partial results are kept in
//   add                       one element, or four
//   combine, finish           join partial results; narrow the last

#include <tutti/backend/calls/kernel_arguments.h>
#include <tutti/backend/elementwise/arithmetic.h>

#include <limits>
#include <type_traits>

namespace tutti::cuda_kernels {

/// Four terms at a time in the element type, the rest in double: the error does not grow with the count.
template <class T, bool squared> struct FloatSum {
  using Accumulated = double;
  TUTTI_HOST_DEVICE static constexpr double identity() { return 0.0; }
  TUTTI_HOST_DEVICE static T term(T x) { return squared ? x * x : x; }
  TUTTI_HOST_DEVICE static double add(double sum, T x) { return sum + static_cast<double>(term(x)); }
  TUTTI_HOST_DEVICE static double add(double sum, T a, T b, T c, T d) {
    return sum + static_cast<double>((term(a) + term(b)) + (term(c) + term(d)));
  }
  TUTTI_HOST_DEVICE static double combine(double a, double b) { return a + b; }
  TUTTI_HOST_DEVICE static T finish(double sum) { return static_cast<T>(sum); }
};

/// Integers wrap; unsigned, so that they do by the language's rules too.
template <class T, bool squared> struct IntegerSum {
  using Accumulated = std::uint64_t;
  TUTTI_HOST_DEVICE static constexpr Accumulated identity() { return 0; }
  TUTTI_HOST_DEVICE static Accumulated add(Accumulated sum, T x) {
    const auto wide = static_cast<Accumulated>(x);
    return sum + (squared ? wide * wide : wide);
  }
  TUTTI_HOST_DEVICE static Accumulated add(Accumulated sum, T a, T b, T c, T d) {
    return add(add(add(add(sum, a), b), c), d);
  }
  TUTTI_HOST_DEVICE static Accumulated combine(Accumulated a, Accumulated b) { return a + b; }
  TUTTI_HOST_DEVICE static T finish(Accumulated sum) { return static_cast<T>(sum); }
};

/// Products in double, or of integers, which wrap.
template <class T> struct Product {
  using Accumulated = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
  TUTTI_HOST_DEVICE static constexpr Accumulated identity() { return 1; }
  TUTTI_HOST_DEVICE static Accumulated add(Accumulated product, T x) { return product * static_cast<Accumulated>(x); }
  TUTTI_HOST_DEVICE static Accumulated add(Accumulated product, T a, T b, T c, T d) {
    return add(add(add(add(product, a), b), c), d);
  }
  TUTTI_HOST_DEVICE static Accumulated combine(Accumulated a, Accumulated b) { return a * b; }
  TUTTI_HOST_DEVICE static T finish(Accumulated product) { return static_cast<T>(product); }
};

/// The largest or smallest, by `elementwise::Maximum` or `Minimum`: NaN wins.
template <class T, class Choice> struct Extreme {
  using Accumulated = T;
  TUTTI_HOST_DEVICE static constexpr T identity() {
    using Limits = std::numeric_limits<T>;
    constexpr bool kIsMax = std::is_same_v<Choice, elementwise::Maximum>;
    if constexpr (Limits::has_infinity) return kIsMax ? -Limits::infinity() : Limits::infinity();
    return kIsMax ? Limits::lowest() : Limits::max();
  }
  TUTTI_HOST_DEVICE static T combine(T a, T b) { return Choice{}.value(a, b); }
  TUTTI_HOST_DEVICE static T add(T best, T x) { return combine(x, best); }
  TUTTI_HOST_DEVICE static T add(T best, T a, T b, T c, T d) {
    return combine(combine(combine(a, b), combine(c, d)), best);
  }
  TUTTI_HOST_DEVICE static T finish(T best) { return best; }
};

/// Calls `f` with the terms that `kind` asks of elements of type T.
template <class T, class F> void visit_terms(Reduction kind, F&& f) {
  constexpr bool kFloating = std::is_floating_point_v<T>;
  switch (kind) {
    case Reduction::sum: return f(std::conditional_t<kFloating, FloatSum<T, false>, IntegerSum<T, false>>{});
    case Reduction::sum_of_squares: return f(std::conditional_t<kFloating, FloatSum<T, true>, IntegerSum<T, true>>{});
    case Reduction::max: return f(Extreme<T, elementwise::Maximum>{});
    case Reduction::min: return f(Extreme<T, elementwise::Minimum>{});
    case Reduction::prod: return f(Product<T>{});
  }
}

}  // namespace tutti::cuda_kernels
