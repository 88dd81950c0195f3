// SPDX-License-Identifier: Apache-2.0
#pragma once

// Steps and bounds. NaN stays NaN.

#include <tutti/backend/elementwise/operation.h>

namespace tutti::elementwise {

struct Floor {
  static constexpr auto name = "floor";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::zero;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return floor(x); }
};

struct Ceil {
  static constexpr auto name = "ceil";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::zero;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return ceil(x); }
};

/// Rounds to the nearest whole number, halves to the even one.
struct Round {
  static constexpr auto name = "round";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::zero;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return nearbyint(x); }
};

struct Trunc {
  static constexpr auto name = "trunc";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::zero;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const { return trunc(x); }
};

/// -1, 0 or 1.
struct Sign {
  static constexpr auto name = "sign";
  static constexpr auto domain = Domain::number;
  static constexpr auto needs = Needs::zero;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const {
    return select(x > scalar<X>(0), scalar<X>(1), select(x < scalar<X>(0), scalar<X>(-1), x));
  }
};

/// min(max(x, low), high). The gradient at the bounds is that between them.
struct Clip {
  static constexpr auto name = "clip";
  static constexpr auto domain = Domain::floating;
  static constexpr auto needs = Needs::inputs;
  double low = 0.0;
  double high = 1.0;
  template <class X> TUTTI_HOST_DEVICE X value(const X& x) const {
    const X above = select(x < scalar<X>(low), scalar<X>(low), x);
    return select(above > scalar<X>(high), scalar<X>(high), above);
  }
  template <class X> TUTTI_HOST_DEVICE X gradient(const X& x, const X& dy) const {
    return select(x >= scalar<X>(low), select(x <= scalar<X>(high), dy, scalar<X>(0)), scalar<X>(0));
  }
};

}  // namespace tutti::elementwise
