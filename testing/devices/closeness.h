// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace tutti::testing {

/// The largest magnitude among those that are finite; 0 if none is.
inline double largest_finite(const std::vector<double>& values) {
  double largest = 0;
  for (const double x : values)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  return largest;
}

/// NaN matches NaN, infinities each other by sign, others within `allowed`.
inline bool close(double expected, double found, double allowed) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  if (std::isinf(expected) || std::isinf(found)) return expected == found;
  return std::abs(expected - found) <= allowed;
}

}  // namespace tutti::testing
