// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>

#include <string>

namespace tutti::testing {

struct Tolerance {
  double relative = 0;        ///< 0: the dtype's, see tolerance_of
  bool each = false;          ///< relative to each element; else to the largest finite one of the array
  bool signed_zeros = false;  ///< 0 and -0 differ
};

/// 1e-12 for f64, 4e-6 for f32 (1e-5 on other devices than the CPU), one unit in the last place for bf16 and f16; other
/// types are equal.
double tolerance_of(DType);

/// "" or where `found` differs from `expected`: in shape, dtype, or which element first. NaN matches NaN, infinities
/// each other by sign, and what is below the dtype's least normal number may be off by two of its smallest.
std::string difference(const Array& expected, const Array& found, const Tolerance&);

}  // namespace tutti::testing
