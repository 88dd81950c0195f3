// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/conversion.h>
#include <tutti/backend/dtype.h>

#include <concepts>
#include <variant>

namespace tutti {

/// One number of any supported type, kept exactly: what users write as a literal.
class Scalar {
 public:
  template <std::floating_point T> Scalar(T value) : value_(static_cast<double>(value)) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Scalar(T value) : value_(static_cast<std::int64_t>(value)) {}
  Scalar(bool value) : value_(value) {}

  template <class T> T to() const {
    return std::visit([](auto value) { return convert<T>(value); }, value_);
  }

  /// The default type of such a literal: f32, i64 or bool.
  DType default_dtype() const {
    constexpr DType kinds[] = {DType::f32, DType::i64, DType::boolean};
    return kinds[value_.index()];
  }

  bool operator==(const Scalar&) const = default;

 private:
  std::variant<double, std::int64_t, bool> value_;
};

}  // namespace tutti
