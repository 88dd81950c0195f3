// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/numbers/conversion.h>

#include <cstdint>

namespace tutti {

/// The i-th number from `first` on, `step` apart. Unsigned, as i * step alone may be out of range.
template <class T> TUTTI_HOST_DEVICE constexpr T numbered(std::int64_t first, std::int64_t step, std::int64_t i) {
  return convert<T>(static_cast<std::int64_t>(static_cast<std::uint64_t>(first) +
                                              static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(step)));
}

}  // namespace tutti
