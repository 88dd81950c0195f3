// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/backend/numbers/conversion.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tutti {

/// One number of any supported type, kept exactly: what users write as a literal.
class Scalar {
 public:
  template <std::floating_point T> Scalar(T value) : value_(static_cast<double>(value)) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Scalar(T value) : value_(static_cast<std::int64_t>(value)) {  // DTypeError for one above i64's
    if constexpr (std::unsigned_integral<T> && sizeof(T) >= sizeof(std::int64_t))
      if (value > static_cast<T>(std::numeric_limits<std::int64_t>::max())) raise_too_large(value);
  }
  Scalar(bool value) : value_(value) {}

  template <class T> T to() const {
    return std::visit([](auto value) { return convert<T>(value); }, value_);
  }

  /// The default type of such a literal: f32, i64 or bool.
  DType default_dtype() const {
    constexpr DType kinds[] = {DType::f32, DType::i64, DType::boolean};
    return kinds[value_.index()];
  }

  /// True if it is in the type's range once its fraction is dropped: NaN and infinities are in none of integers.
  /// Floating types round, and to bool it is x != 0.
  bool fits(DType) const noexcept;

  bool operator==(const Scalar&) const = default;
  friend std::string to_string(const Scalar&);

 private:
  [[noreturn]] static void raise_too_large(std::uint64_t);

  std::variant<double, std::int64_t, bool> value_;
};

/// Throws DTypeError naming the operation unless the number fits.
void require_fit(std::string_view operation, const Scalar&, DType);

}  // namespace tutti
