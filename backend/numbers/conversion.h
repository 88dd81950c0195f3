// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/dtype.h>
#include <tutti/backend/numbers/host_device.h>

#include <limits>
#include <type_traits>

namespace tutti {

/// An element in another type. To bool: x != 0. Floating point to integers truncates; what does not fit becomes the
/// nearest that does, and NaN becomes 0. Integers to shorter ones wrap. To floating point: the nearest, ties to even
/// (i64 goes to 16 bits by way of f64).
template <class To, class From> TUTTI_HOST_DEVICE constexpr To convert(From value) {
  if constexpr (!std::is_same_v<From, ComputedIn<From>>) {
    return convert<To>(static_cast<ComputedIn<From>>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr From kBelow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From kAbove =
        2 * static_cast<From>(std::numeric_limits<To>::max() / 2 + 1);  // the largest and 1, exactly
    if (value != value) return 0;
    if (value < kBelow) return std::numeric_limits<To>::min();
    if (value >= kAbove) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace tutti
