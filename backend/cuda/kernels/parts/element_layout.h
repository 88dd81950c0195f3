// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds the operands of a kernel's elements: what a thread computes from a plan (element_plan.h).

#include <tutti/backend/elementwise/operation.h>

#include <cstddef>
#include <cstdint>

namespace tutti {

/// Division of numbers below 2^31 by one that is known beforehand, as a multiplication and a shift: Granlund and
/// Montgomery, "Division by Invariant Integers using Multiplication" (1994), figure 4.1.
class Divisor {
 public:
  Divisor() = default;
  explicit constexpr Divisor(std::uint32_t value) : value_(value) {  // 0 < value < 2^31
    while ((std::uint64_t{1} << shift_) < value) ++shift_;
    const std::uint64_t excess = (std::uint64_t{1} << shift_) - value;
    factor_ = static_cast<std::uint32_t>((excess << 32U) / value + 1);
  }

  TUTTI_HOST_DEVICE constexpr std::uint32_t value() const { return value_; }
  TUTTI_HOST_DEVICE constexpr std::uint32_t quotient(std::uint32_t number) const {
    const auto high = static_cast<std::uint32_t>((static_cast<std::uint64_t>(number) * factor_) >> 32U);
    return (high + number) >> shift_;
  }

 private:
  std::uint32_t value_ = 1;
  std::uint32_t factor_ = 1;
  std::uint32_t shift_ = 0;
};

/// The places of up to 2^31 - 1 items in the memory of each operand, of which the output is the first. An item is an
/// element or a group of neighbouring ones. Axes stand innermost first.
struct ElementLayout {
  static constexpr std::size_t kAxes = 8;
  static constexpr std::size_t kOperands = 4;

  std::uint32_t items = 0;
  std::uint32_t in_last = 1;  ///< elements in the last item
  std::uint32_t axes = 1;
  Divisor length[kAxes];                    // counted in items
  std::int32_t stride[kOperands][kAxes]{};  // counted in elements
};

template <std::size_t operands> struct ElementOffsets {
  std::int32_t of[operands];
};

/// Offsets of an item from each operand's first element, in elements.
template <std::size_t operands>
TUTTI_HOST_DEVICE constexpr ElementOffsets<operands> element_offsets(const ElementLayout& layout, std::uint32_t item) {
  std::uint32_t sum[operands] = {};
  const std::uint32_t outermost = layout.axes - 1;
  for (std::uint32_t axis = 0; axis < outermost; ++axis) {
    const std::uint32_t rest = layout.length[axis].quotient(item);
    const std::uint32_t position = item - rest * layout.length[axis].value();
    for (std::size_t i = 0; i < operands; ++i) sum[i] += position * static_cast<std::uint32_t>(layout.stride[i][axis]);
    item = rest;
  }
  ElementOffsets<operands> offsets{};
  for (std::size_t i = 0; i < operands; ++i)
    offsets.of[i] = static_cast<std::int32_t>(sum[i] + item * static_cast<std::uint32_t>(layout.stride[i][outermost]));
  return offsets;
}

/// Elements that a thread takes at once: 16 bytes of the operand whose elements are the widest.
TUTTI_HOST_DEVICE constexpr std::uint32_t group_lanes(std::size_t widest_bytes) {
  return static_cast<std::uint32_t>(16 / widest_bytes);
}

/// Operands of one launch. In a group, an operand's elements are neighbours in memory, aligned to the group, or all the
/// same one (innermost stride 0); the output's are neighbours. Only the last group may be partial.
struct ElementBatch {
  ElementLayout layout;
  bool grouped = false;
  std::byte* output = nullptr;
  const std::byte* input[ElementLayout::kOperands - 1]{};
};

}  // namespace tutti
