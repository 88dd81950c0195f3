// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/numbers/short_float.h>

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>

namespace tutti {

/// Type of an array's elements.
enum class DType : std::uint8_t { f32, f64, i32, i64, boolean, bf16, f16, i8, u8 };

inline constexpr DType kAllDTypes[] = {DType::f32,  DType::f64, DType::i32, DType::i64, DType::boolean,
                                       DType::bf16, DType::f16, DType::i8,  DType::u8};

std::string_view to_string(DType) noexcept;  ///< "f32", "bool"
std::ostream& operator<<(std::ostream&, DType);

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::boolean:
    case DType::i8:
    case DType::u8: return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) noexcept {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16 || dtype == DType::f16;
}
constexpr bool is_integral(DType dtype) noexcept { return dtype != DType::boolean && !is_floating(dtype); }

/// The type that an element is computed in: f32 for bf16 and f16, i32 for i8 and u8, else its own. Results are narrowed
/// once, at the end.
constexpr DType computed_in(DType dtype) noexcept {
  switch (dtype) {
    case DType::bf16:
    case DType::f16: return DType::f32;
    case DType::i8:
    case DType::u8: return DType::i32;
    default: return dtype;
  }
}
/// Whether it is computed in another type: bf16, f16, i8 and u8.
constexpr bool is_narrow(DType dtype) noexcept { return computed_in(dtype) != dtype; }

/// The dtype that both become beside each other: the later of bool, {i8, u8}, i32, i64, {bf16, f16}, f32, f64. Of two
/// from one pair of braces neither holds the other: i8 and u8 give i32, the next that holds both; bf16 and f16 give
/// f32.
constexpr DType promote(DType lhs, DType rhs) noexcept {
  constexpr auto rank = [](DType dtype) {
    switch (dtype) {
      case DType::boolean: return 0;
      case DType::i8:
      case DType::u8: return 1;
      case DType::i32: return 2;
      case DType::i64: return 3;
      case DType::bf16:
      case DType::f16: return 4;
      case DType::f32: return 5;
      case DType::f64: return 6;
    }
    return 0;
  };
  if (lhs != rhs && rank(lhs) == rank(rhs)) return computed_in(lhs);
  return rank(lhs) >= rank(rhs) ? lhs : rhs;
}

/// Calls `f(std::type_identity<T>{})` with the C++ type of `dtype`.
template <class F> decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64: return f(std::type_identity<double>{});
    case DType::i32: return f(std::type_identity<std::int32_t>{});
    case DType::i64: return f(std::type_identity<std::int64_t>{});
    case DType::boolean: return f(std::type_identity<bool>{});
    case DType::bf16: return f(std::type_identity<BFloat16>{});
    case DType::f16: return f(std::type_identity<Float16>{});
    case DType::i8: return f(std::type_identity<std::int8_t>{});
    case DType::u8: return f(std::type_identity<std::uint8_t>{});
    case DType::f32: break;
  }
  return f(std::type_identity<float>{});
}

/// The same for the types that others are computed in; `dtype` is one of them.
template <class F> decltype(auto) visit_computed_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64: return f(std::type_identity<double>{});
    case DType::i32: return f(std::type_identity<std::int32_t>{});
    case DType::i64: return f(std::type_identity<std::int64_t>{});
    case DType::boolean: return f(std::type_identity<bool>{});
    default: return f(std::type_identity<float>{});
  }
}

/// The DType of a C++ type: `dtype_of<float> == DType::f32`.
template <class T> inline constexpr DType dtype_of = [] {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, Float16>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return DType::i8;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return DType::u8;
  else {
    static_assert(std::is_same_v<T, bool>, "no DType for this C++ type");
    return DType::boolean;
  }
}();

/// Calls `f(std::type_identity<T>{})` with the C++ type of a floating dtype, narrow ones too.
template <class F> void visit_any_floating(DType dtype, F&& f) {
  visit_dtype(dtype, [&]<class T>(std::type_identity<T> type) {
    if constexpr (is_floating(dtype_of<T>)) f(type);
  });
}

/// The C++ type of `computed_in`.
template <class T> using ComputedIn =
    std::conditional_t<!is_narrow(dtype_of<T>), T, std::conditional_t<is_floating(dtype_of<T>), float, std::int32_t>>;

}  // namespace tutti
