// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// The bytes or characters that a text has, in ascending order; a token is the place of one among them.
class Vocabulary {
 public:
  enum class Unit : std::uint8_t {
    byte,
    character,  ///< a code point of UTF-8
  };

  /// Throws DataError, with the offset, for what is not UTF-8 (RFC 3629) if units are characters.
  explicit Vocabulary(std::string_view text, Unit = Unit::byte);

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(units_.size()); }
  Unit unit() const noexcept { return unit_; }
  /// Each unit once, as text: a vocabulary of it is the same. To be kept with a model.
  std::string text() const;

  std::vector<std::int64_t> encode(std::string_view text) const;   ///< DataError for what is not in it, with the offset
  std::string decode(std::span<const std::int64_t> tokens) const;  ///< DataError for a token out of range

 private:
  std::vector<char32_t> units_;
  Unit unit_;
};

}  // namespace tutti
