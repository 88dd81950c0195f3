// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace tutti {

/// The sum of doubles, rounded once: whatever the order they came in and however they were divided among devices, the
/// same bits. Kept as partial sums that do not overlap: Shewchuk, "Adaptive Precision Floating-Point Arithmetic and
/// Fast Robust Geometric Predicates" (1997). A sum beyond the largest double is infinite.
class ExactSum {
 public:
  void add(double);
  void merge(const ExactSum&);
  double value() const;  ///< NaN and infinities as in a plain sum

  const std::vector<double>& partials() const noexcept {
    return partials_;
  }  ///< smallest first; adding them restores it

 private:
  std::vector<double> partials_;  // no two of them have bits in one place; the last may be NaN or infinite
};

}  // namespace tutti
