// SPDX-License-Identifier: Apache-2.0
#pragma once

// Comparisons: two operands of one type in, bool out. NaN compares as in C++.

#include <tutti/backend/elementwise/operation.h>

namespace tutti::elementwise {

struct Equal {
  static constexpr auto name = "equal";
  static constexpr auto domain = Domain::any;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> TUTTI_HOST_DEVICE auto value(const X& a, const X& b) const { return a == b; }
};

struct NotEqual {
  static constexpr auto name = "not_equal";
  static constexpr auto domain = Domain::any;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> TUTTI_HOST_DEVICE auto value(const X& a, const X& b) const { return a != b; }
};

struct Less {
  static constexpr auto name = "less";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> TUTTI_HOST_DEVICE auto value(const X& a, const X& b) const { return a < b; }
};

struct LessEqual {
  static constexpr auto name = "less_equal";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> TUTTI_HOST_DEVICE auto value(const X& a, const X& b) const { return a <= b; }
};

struct Greater {
  static constexpr auto name = "greater";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> TUTTI_HOST_DEVICE auto value(const X& a, const X& b) const { return a > b; }
};

struct GreaterEqual {
  static constexpr auto name = "greater_equal";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::no_gradient;
  template <class X> TUTTI_HOST_DEVICE auto value(const X& a, const X& b) const { return a >= b; }
};

}  // namespace tutti::elementwise
