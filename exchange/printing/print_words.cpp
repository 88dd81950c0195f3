// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/printing/print_words.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace tutti::detail {
namespace {

using Words = std::vector<std::string>;

/// |x| = 0.d1d2d3... * 10^(exponent + 1): the fewest digits that only this value of its type rounds to.
struct Digits {
  std::string digits;
  int exponent = 0;
};

Digits parse_scientific(std::string_view text) {
  const std::size_t e = text.find('e');
  Digits result{std::string(text.substr(0, e)), std::atoi(std::string(text.substr(e + 1)).c_str())};
  std::erase(result.digits, '.');
  const std::size_t last = result.digits.find_last_not_of('0');
  result.digits.resize(last == std::string::npos ? 1 : last + 1);
  return result;
}

std::string printed(double value, std::chars_format format, int precision) {
  char text[400];
  return {text, std::to_chars(text, text + sizeof text, value, format, precision).ptr};
}

template <class T> Digits shortest(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    char text[64];
    return parse_scientific({text, std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr});
  } else {  // types of 16 bits
    const auto wide = static_cast<double>(static_cast<float>(value));
    for (int precision = 0;; ++precision) {
      const std::string text = printed(wide, std::chars_format::scientific, precision);
      if (precision == 8 ||
          static_cast<double>(static_cast<float>(static_cast<T>(std::strtof(text.c_str(), nullptr)))) == wide)
        return parse_scientific(text);
    }
  }
}

/// A number cut where its text is: before the point, behind it, the exponent.
struct Parts {
  std::string whole, fraction;
  int exponent = 0;
};

/// With at most `precision` digits behind the point; trailing zeros are dropped.
template <class T> Parts positional(T value, int precision) {
  const auto wide = static_cast<double>(value);
  const Digits digits = shortest(static_cast<T>(std::abs(wide)));
  const int behind = std::max(0, static_cast<int>(digits.digits.size()) - 1 - digits.exponent);
  std::string text = printed(std::abs(wide), std::chars_format::fixed, std::min(behind, precision));
  Parts parts;
  const std::size_t point = std::min(text.find('.'), text.size());
  parts.whole = (std::signbit(wide) ? "-" : "") + text.substr(0, point);
  if (point < text.size()) parts.fraction = text.substr(point + 1);
  parts.fraction.resize(parts.fraction.find_last_not_of('0') + 1);
  return parts;
}

/// The digits behind the first, as many as it takes, but at most `precision`.
template <class T> Digits significant(T value, int precision) {
  Digits digits = shortest(static_cast<T>(std::abs(static_cast<double>(value))));
  if (static_cast<int>(digits.digits.size()) - 1 > precision)
    digits = parse_scientific(printed(std::abs(static_cast<double>(value)), std::chars_format::scientific, precision));
  return digits;
}

/// With `precision` digits behind the first.
Parts scientific(double value, std::size_t precision) {
  const std::string text = printed(std::abs(value), std::chars_format::scientific, static_cast<int>(precision));
  const std::size_t e = text.find('e');
  return {(std::signbit(value) ? "-" : "") + text.substr(0, 1),
          text.substr(std::min<std::size_t>(2, e), e - std::min<std::size_t>(2, e)), std::atoi(text.c_str() + e + 1)};
}

template <class T> constexpr int kSafeDigits = std::is_same_v<T, double>  ? 15
                                               : std::is_same_v<T, float> ? 6
                                               : sizeof(T) == 2           ? 3
                                                                          : 0;

/// Large or small numbers, and those that differ much, are written with an exponent.
template <class T> bool needs_exponent(std::span<const T> values) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const T value : values) {
    const double size = std::abs(static_cast<double>(value));
    if (size == 0 || !std::isfinite(size)) continue;
    least = std::min(least, size);
    most = std::max(most, size);
  }
  const double large = std::pow(10.0, std::min(8, kSafeDigits<T>));
  return most > 0 && (most >= large || least < 0.0001 || static_cast<double>(static_cast<T>(most / least)) > 1000);
}

std::string exponent_text(int exponent, std::size_t digits) {
  std::string text = std::to_string(std::abs(exponent));
  text.insert(0, digits - std::min(digits, text.size()), '0');
  return (exponent < 0 ? "e-" : "e+") + text;
}

/// Places of the widest number, so that points stand below each other.
struct Columns {
  std::size_t whole = 0, fraction = 0, exponent = 0;
};

std::string aligned(const Parts& parts, const Columns& columns) {
  std::string text(columns.whole - parts.whole.size(), ' ');
  text += parts.whole + "." + parts.fraction;
  text.append(columns.fraction - parts.fraction.size(), ' ');
  if (columns.exponent > 0) text += exponent_text(parts.exponent, columns.exponent);
  return text;
}

/// Digits behind the point of the number that needs most.
template <class T> std::size_t scientific_digits(std::span<const T> values, int precision) {
  std::size_t most = 0;
  for (const T value : values)
    if (std::isfinite(static_cast<double>(value)))
      most = std::max(most, significant(value, precision).digits.size() - 1);
  return most;
}

template <class T> Words floating_words(std::span<const T> values, int precision) {
  const bool exponents = needs_exponent(values);
  const std::size_t digits = exponents ? scientific_digits(values, precision) : 0;
  std::vector<Parts> parts;
  Columns columns;
  std::size_t widest_other = 0;
  for (const T value : values) {
    const auto wide = static_cast<double>(value);
    if (!std::isfinite(wide)) {
      parts.push_back({std::isnan(wide) ? "nan" : wide < 0 ? "-inf" : "inf", {}, 0});
      widest_other = std::max(widest_other, parts.back().whole.size());
      continue;
    }
    parts.push_back(exponents ? scientific(wide, digits) : positional(value, precision));
    const Parts& one = parts.back();
    columns.whole = std::max(columns.whole, one.whole.size());
    columns.fraction = std::max(columns.fraction, one.fraction.size());
    if (exponents) columns.exponent = std::max(columns.exponent, exponent_text(one.exponent, 2).size() - 2);
  }
  const std::size_t behind = 1 + columns.fraction + (exponents ? 2 + columns.exponent : 0);
  if (widest_other > columns.whole + behind) columns.whole = widest_other - behind;
  Words words;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool finite = std::isfinite(static_cast<double>(values[i]));
    words.push_back(finite ? aligned(parts[i], columns)
                           : std::string(columns.whole + behind - parts[i].whole.size(), ' ') + parts[i].whole);
  }
  return words;
}

template <class T> Words integer_words(std::span<const T> values) {
  Words words;
  std::size_t width = 0;
  for (const T value : values) {
    words.push_back(std::to_string(value));
    width = std::max(width, words.back().size());
  }
  for (std::string& word : words) word.insert(0, width - word.size(), ' ');
  return words;
}

Words boolean_words(std::span<const bool> values, bool is_scalar) {
  Words words;
  for (const bool value : values) words.emplace_back(!value ? "False" : is_scalar ? "True" : " True");
  return words;
}

}  // namespace

std::vector<std::string> element_words(DType dtype, std::span<const std::byte> elements, int precision,
                                       bool is_scalar) {
  return visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    const std::span<const T> values(reinterpret_cast<const T*>(elements.data()), elements.size() / sizeof(T));
    if constexpr (std::is_same_v<T, bool>)
      return boolean_words(values, is_scalar);
    else if constexpr (std::is_integral_v<T>)
      return integer_words(values);
    else
      return floating_words(values, precision);
  });
}

}  // namespace tutti::detail
