// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/vocabulary.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/utf8.h>

#include <algorithm>

namespace tutti {
namespace {

std::size_t length_of(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (!detail::is_utf8(text.substr(at, length))) raise<DataError>("[Vocabulary] no UTF-8 at offset {}", at);
  return length;
}

char32_t code_point(std::string_view character) {
  if (character.size() == 1) return static_cast<unsigned char>(character[0]);
  char32_t code = static_cast<unsigned char>(character[0]) & (0x7fU >> character.size());
  for (const char byte : character.substr(1)) code = code << 6U | (static_cast<unsigned char>(byte) & 0x3fU);
  return code;
}

/// Calls `f` with each unit and its offset.
template <class F> void for_each_unit(std::string_view text, Vocabulary::Unit unit, F f) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = unit == Vocabulary::Unit::byte ? 1 : length_of(text, at);
    f(code_point(text.substr(at, length)), at);
    at += length;
  }
}

void append(std::string& text, char32_t code, Vocabulary::Unit unit) {
  const auto put = [&](char32_t bits) { text += static_cast<char>(static_cast<unsigned char>(bits)); };
  if (unit == Vocabulary::Unit::byte || code < 0x80) return put(code);
  const unsigned more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  put((0xff00U >> (more + 1) & 0xffU) | code >> 6 * more);
  for (unsigned left = more; left-- > 0;) put(0x80U | (code >> 6 * left & 0x3fU));
}

}  // namespace

Vocabulary::Vocabulary(std::string_view text, Unit unit) : unit_(unit) {
  std::vector<bool> seen;
  for_each_unit(text, unit, [&](char32_t code, std::size_t) {
    if (code >= seen.size()) seen.resize(code + 1);
    if (!seen[code]) units_.push_back(code);
    seen[code] = true;
  });
  std::ranges::sort(units_);
}

std::string Vocabulary::text() const {
  std::string text;
  for (const char32_t code : units_) append(text, code, unit_);
  return text;
}

std::vector<std::int64_t> Vocabulary::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  for_each_unit(text, unit_, [&](char32_t code, std::size_t at) {
    const auto place = std::ranges::lower_bound(units_, code);
    if (place == units_.end() || *place != code) {
      std::string unknown;
      append(unknown, code, unit_);
      raise<DataError>("[Vocabulary] \"{}\" at offset {} is not in it", unknown, at);
    }
    tokens.push_back(place - units_.begin());
  });
  return tokens;
}

std::string Vocabulary::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= size()) raise<DataError>("[Vocabulary] token {} of {}", token, size());
    append(text, units_[static_cast<std::size_t>(token)], unit_);
  }
  return text;
}

}  // namespace tutti
