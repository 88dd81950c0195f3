// SPDX-License-Identifier: Apache-2.0
#pragma once

// The formulas that each elementwise operation has for a type of elements, and how many operands they read: what the
// tables of kernels are made from.

#include <tutti/backend/elementwise/lists.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#if defined(__GNUC__)
#define TUTTI_FORMULA [[gnu::always_inline]] inline
#else
#define TUTTI_FORMULA inline
#endif

namespace tutti::elementwise {

struct Value {
  static constexpr auto part = ElementwiseCall::Part::value;
  template <class O, class... X> TUTTI_FORMULA TUTTI_HOST_DEVICE static auto apply(const O& operation, const X&... x) {
    return operation.value(x...);
  }
};
struct Gradient {
  static constexpr auto part = ElementwiseCall::Part::gradient;
  template <class O, class... X> TUTTI_FORMULA TUTTI_HOST_DEVICE static auto apply(const O& operation, const X&... x) {
    return operation.gradient(x...);
  }
};
struct GradientLhs {
  static constexpr auto part = ElementwiseCall::Part::gradient_lhs;
  template <class O, class... X> TUTTI_FORMULA TUTTI_HOST_DEVICE static auto apply(const O& operation, const X&... x) {
    return operation.gradient_lhs(x...);
  }
};
struct GradientRhs {
  static constexpr auto part = ElementwiseCall::Part::gradient_rhs;
  template <class O, class... X> TUTTI_FORMULA TUTTI_HOST_DEVICE static auto apply(const O& operation, const X&... x) {
    return operation.gradient_rhs(x...);
  }
};

#undef TUTTI_FORMULA

template <class T> constexpr bool in_domain(Domain domain) {
  switch (domain) {
    case Domain::floating: return std::is_floating_point_v<T>;
    case Domain::number: return !std::is_same_v<T, bool>;
    case Domain::bits: return std::is_integral_v<T>;
    case Domain::any: return true;
  }
  return false;
}

/// One formula for elements of one type; `inputs` counts the operands that it reads.
template <class O, class P, class T, std::size_t n> struct Formula {
  using Operation = O;
  using Part = P;
  using Element = T;
  static constexpr std::size_t inputs = n;
};

/// Calls `f(Formula<Operation, ...>{})` for each formula that the operation has for T.
template <class O, class T, class F> constexpr void for_each_formula(const F& f) {
  if constexpr (in_domain<T>(O::domain)) {
    constexpr bool kBinary = requires(const O& operation, T x) { operation.value(x, x); };
    constexpr std::size_t kInputs = kBinary ? 2 : 1;
    f(Formula<O, Value, T, kInputs>{});
    if constexpr (std::is_floating_point_v<T> && has_gradient_kernel<O>) {
      constexpr std::size_t kRead = O::needs == Needs::nothing ? 1 : O::needs == Needs::output ? 2 : kInputs + 1;
      if constexpr (kBinary) {
        f(Formula<O, GradientLhs, T, kRead>{});
        f(Formula<O, GradientRhs, T, kRead>{});
      } else {
        f(Formula<O, Gradient, T, kRead>{});
      }
    }
  }
}

/// A table by operation and part. `K` is a pointer: null where an operation does not take the type or has no such part.
template <class K> using Table = std::array<std::array<K, 4>, AllOperations::size>;

/// The table for elements of type T that holds `entry(Formula<...>{})`.
template <class K, class T, class Entry> constexpr Table<K> make_table(const Entry& entry) {
  Table<K> table{};
  std::size_t index = 0;
  AllOperations::for_each([&]<class O>(std::type_identity<O>) {
    for_each_formula<O, T>(
        [&]<class F>(F formula) { table[index][static_cast<std::size_t>(F::Part::part)] = entry(formula); });
    ++index;
  });
  return table;
}

/// The operations' names, by place in `AllOperations`.
inline constexpr auto kNames = [] {
  std::array<std::string_view, AllOperations::size> names{};
  std::size_t index = 0;
  AllOperations::for_each([&]<class O>(std::type_identity<O>) { names[index++] = O::name; });
  return names;
}();

}  // namespace tutti::elementwise
