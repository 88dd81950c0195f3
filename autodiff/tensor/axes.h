// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/shape.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace tutti {

/// Axes of an operation, one or several; negative ones count from the back: sum(x, 0), sum(x, {0, -1}).
class Axes : public Dims {
 public:
  Axes() = default;
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Axes(T axis) : Dims{static_cast<std::int64_t>(axis)} {}  // NOLINT: conversions are the point
  Axes(std::initializer_list<std::int64_t> axes) : Dims(axes) {}
  Axes(const Dims& axes) : Dims(axes) {}  // NOLINT
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Axes(const std::vector<T>& axes) : Dims(axes) {}                                      // NOLINT
  operator std::span<const std::int64_t>() const noexcept { return {data(), size()}; }  // NOLINT
};

}  // namespace tutti
