// SPDX-License-Identifier: Apache-2.0
#pragma once

// Size arithmetic on numbers that users give. Every length, extent, offset or count that is worked out from them is
// worked out with this, so that what overflows is an error and never a small number.

#include <tutti/backend/raise.h>
#include <tutti/backend/shape.h>

#include <cstdint>
#include <string_view>
#include <utility>

/// Lets errors take shapes as they are: written out only where there is an error.
template <> struct fmt::formatter<tutti::Dims> : fmt::formatter<std::string_view> {
  auto format(const tutti::Dims& dims, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(tutti::to_string(dims), context);
  }
};

namespace tutti {

/// An integer of 64 bits that remembers whether a step on the way to it overflowed: `CheckedSize(length) + 2 *
/// CheckedSize(padding)`.
class CheckedSize {
 public:
  constexpr CheckedSize(std::int64_t value) noexcept : value_(value) {}  // NOLINT: conversions are the point

  friend constexpr CheckedSize operator+(CheckedSize lhs, CheckedSize rhs) noexcept {
    std::int64_t value = 0;
    const bool overflows = __builtin_add_overflow(lhs.value_, rhs.value_, &value);
    return {value, overflows || !lhs.fits_ || !rhs.fits_};
  }
  friend constexpr CheckedSize operator-(CheckedSize lhs, CheckedSize rhs) noexcept {
    std::int64_t value = 0;
    const bool overflows = __builtin_sub_overflow(lhs.value_, rhs.value_, &value);
    return {value, overflows || !lhs.fits_ || !rhs.fits_};
  }
  friend constexpr CheckedSize operator*(CheckedSize lhs, CheckedSize rhs) noexcept {
    std::int64_t value = 0;
    const bool overflows = __builtin_mul_overflow(lhs.value_, rhs.value_, &value);
    return {value, overflows || !lhs.fits_ || !rhs.fits_};
  }

  constexpr std::int64_t get_or(std::int64_t otherwise) const noexcept { return fits_ ? value_ : otherwise; }
  /// The number. Throws ShapeError, "[pad] widths 1, 9223372036854775807 of axis 0: the size overflows 64 bits", where
  /// it does not fit; the format and its arguments say what it was to be made of.
  template <class... Arguments>
  std::int64_t get(std::string_view operation, fmt::format_string<Arguments...> made_of, Arguments&&... with) const {
    if (!fits_)
      raise<ShapeError>("[{}] {}: the size overflows 64 bits", operation,
                        fmt::format(made_of, std::forward<Arguments>(with)...));
    return value_;
  }

 private:
  constexpr CheckedSize(std::int64_t value, bool overflowed) noexcept : value_(value), fits_(!overflowed) {}

  std::int64_t value_;
  bool fits_ = true;
};

}  // namespace tutti
