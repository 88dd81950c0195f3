// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/collective_plan.h>

#include <cstddef>
#include <cstdint>

namespace tutti {

/// Number of one piece of a reduction, counted alike by all processes, from 1 in each of the two sequences. Goes round
/// after some thousand million pieces.
class RingNumber {
 public:
  static constexpr std::uint32_t kRoundSlots = 32;  ///< powers of two, so that the count goes round where slots do
  static constexpr std::uint32_t kUsersSlots = 8;
  static constexpr std::uint32_t kSlots = kRoundSlots + kUsersSlots;

  static constexpr RingNumber first(Sequence sequence) { return RingNumber(2 + (sequence == Sequence::users ? 1 : 0)); }

  constexpr RingNumber operator+(std::size_t pieces) const {
    return RingNumber(value_ + 2 * static_cast<std::uint32_t>(pieces));
  }
  /// The piece that had the slot before.
  constexpr RingNumber before_in_slot() const { return RingNumber(value_ - 2 * slots()); }
  constexpr std::size_t slot() const {
    return of_users() ? kRoundSlots + count() % kUsersSlots : count() % kRoundSlots;
  }
  constexpr std::uint32_t count() const { return value_ >> 1U; }  ///< the number that errors show
  /// Word in the slot of a process that has come to this piece; 0 in a slot that nobody has used.
  constexpr std::uint32_t value() const { return value_ & ~1U; }

 private:
  explicit constexpr RingNumber(std::uint32_t value) : value_(value) {}
  constexpr bool of_users() const { return (value_ & 1U) != 0; }
  constexpr std::uint32_t slots() const { return of_users() ? kUsersSlots : kRoundSlots; }

  std::uint32_t value_;  // twice the count, and one in the users' sequence
};

}  // namespace tutti
