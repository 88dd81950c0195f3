// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tutti {

/// Type of an array's elements.
enum class DType : std::uint8_t { f32, f64, i32, i64, boolean };

inline constexpr DType kAllDTypes[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::boolean};

std::string_view to_string(DType) noexcept;  ///< "f32", "bool"

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::boolean: return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) noexcept { return dtype == DType::f32 || dtype == DType::f64; }
constexpr bool is_integral(DType dtype) noexcept { return dtype == DType::i32 || dtype == DType::i64; }

/// The smallest type that holds both: bool < i32 < i64 < f32 < f64. An integer beside f32 gives f32.
constexpr DType promote(DType lhs, DType rhs) noexcept {
  constexpr auto rank = [](DType dtype) {
    switch (dtype) {
      case DType::boolean: return 0;
      case DType::i32: return 1;
      case DType::i64: return 2;
      case DType::f32: return 3;
      case DType::f64: return 4;
    }
    return 0;
  };
  return rank(lhs) >= rank(rhs) ? lhs : rhs;
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
  else {
    static_assert(std::is_same_v<T, bool>, "no DType for this C++ type");
    return DType::boolean;
  }
}();

/// Calls `f(std::type_identity<T>{})` with the C++ type of `dtype`.
template <class F> decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64: return f(std::type_identity<double>{});
    case DType::i32: return f(std::type_identity<std::int32_t>{});
    case DType::i64: return f(std::type_identity<std::int64_t>{});
    case DType::boolean: return f(std::type_identity<bool>{});
    case DType::f32: break;
  }
  return f(std::type_identity<float>{});
}

}  // namespace tutti
