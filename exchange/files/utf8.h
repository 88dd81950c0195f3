// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace tutti::detail {

/// True if a text is well-formed UTF-8 (RFC 3629: no surrogates, nothing longer than needed).
constexpr bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
    const unsigned first = byte(i++);
    if (first < 0x80) continue;
    const int more = first >= 0xc2 && first < 0xe0   ? 1
                     : first >= 0xe0 && first < 0xf0 ? 2
                     : first >= 0xf0 && first < 0xf5 ? 3
                                                     : 0;
    if (more == 0) return false;
    const unsigned second = byte(i);
    const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (second < least || second > most) return false;
    for (int j = 1; j < more; ++j)
      if ((byte(i + static_cast<std::size_t>(j)) & 0xc0U) != 0x80U) return false;
    i += static_cast<std::size_t>(more);
  }
  return true;
}

}  // namespace tutti::detail
