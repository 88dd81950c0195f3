// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operations on each bit of two integers, or of two bools.

#include <tutti/backend/elementwise/operation.h>

namespace tutti::elementwise {

struct BitAnd {
  static constexpr auto name = "bitwise_and";
  static constexpr auto domain = Domain::bits;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const { return X(a & b); }
};

struct BitOr {
  static constexpr auto name = "bitwise_or";
  static constexpr auto domain = Domain::bits;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const { return X(a | b); }
};

struct BitXor {
  static constexpr auto name = "bitwise_xor";
  static constexpr auto domain = Domain::bits;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> TUTTI_HOST_DEVICE X value(const X& a, const X& b) const { return X(a ^ b); }
};

}  // namespace tutti::elementwise
