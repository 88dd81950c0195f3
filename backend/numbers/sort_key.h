// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/numbers/host_device.h>

#include <bit>
#include <cstdint>
#include <type_traits>

namespace tutti {

template <class T> using SortKey = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// An unsigned number for each element, in the order that they are sorted in on every kind of device: -0 is 0, and NaN
/// is greater than any number. Descending is the other way round.
template <class T> TUTTI_HOST_DEVICE SortKey<T> sort_key(T x, bool descending) {
  using Key = SortKey<T>;
  constexpr Key kSign = Key{1} << (8 * sizeof(T) - 1);
  Key key;
  if constexpr (std::is_floating_point_v<T>) {
    const Key bits = std::bit_cast<Key>(x == T(0) ? T(0) : x);
    key = x != x ? static_cast<Key>(~Key{0}) : (bits & kSign) != 0 ? static_cast<Key>(~bits) : bits | kSign;
  } else {
    key = static_cast<Key>(x) ^ kSign;
  }
  return descending ? static_cast<Key>(~key) : key;
}

}  // namespace tutti
