// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/scalar.h>

#include <tutti/backend/raise.h>

#include <cmath>
#include <limits>
#include <type_traits>

namespace tutti {

namespace {

template <class T> bool in_range_of(double value) {
  constexpr auto kFirst = static_cast<double>(std::numeric_limits<T>::min());
  constexpr double kBehind = 2 * static_cast<double>(std::numeric_limits<T>::max() / 2 + 1);
  return std::trunc(value) >= kFirst && value < kBehind;  // of NaN false
}
template <class T> bool in_range_of(std::int64_t value) { return std::in_range<T>(value); }
template <class T> bool in_range_of(bool) { return true; }

}  // namespace

bool Scalar::fits(DType dtype) const noexcept {
  if (!is_integral(dtype)) return true;
  return visit_dtype(dtype, [this]<class T>(std::type_identity<T>) {
    if constexpr (is_integral(dtype_of<T>))
      return std::visit([](auto value) { return in_range_of<T>(value); }, value_);
    else
      return true;
  });
}

std::string to_string(const Scalar& scalar) {
  return std::visit([](auto value) { return fmt::format("{}", value); }, scalar.value_);
}

void Scalar::raise_too_large(std::uint64_t value) { raise<DTypeError>("[literal] {} is no i64", value); }

void require_fit(std::string_view operation, const Scalar& number, DType dtype) {
  if (!number.fits(dtype)) raise<DTypeError>("[{}] {} is no {}", operation, to_string(number), to_string(dtype));
}

}  // namespace tutti
