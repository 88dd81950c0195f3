// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/shape.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

/// Why a matrix has no such result, as the kernel that meets it tells.
struct MatrixDefect {
  enum class Kind : std::uint8_t { none, singular, not_positive_definite, not_finite, no_convergence };

  Kind kind = Kind::none;
  std::int64_t pivot = 0;  ///< singular: place of the first 0 on its triangle's diagonal
};

/// "is singular: pivot 2 is 0".
std::string to_string(const MatrixDefect&);

/// LinearAlgebraError for matrix `place` of those of an operand [..., rows, columns], counted row-major:
/// "[solve] matrix [1, 0] of [2, 3, 4, 4] is singular: pivot 2 is 0".
[[noreturn]] void raise_defect(std::string_view operation, const MatrixDefect&, std::int64_t place,
                               const Shape& operand);

}  // namespace tutti
