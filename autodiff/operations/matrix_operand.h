// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks and casts of the operands of autodiff/operations/linear_algebra.h's operations.

#include <tutti/autodiff/tensor.h>

#include <cstdint>
#include <string_view>

namespace tutti {

void require_matrix(std::string_view operation, const Tensor&);  ///< ShapeError unless it has rows and columns
void require_square(std::string_view operation, const Tensor&);  ///< ShapeError unless it has as many rows as columns

/// The operand in the type that it is computed in, f32 or f64.
Tensor matrix_operand(std::string_view operation, const Tensor&);
Tensor square_operand(std::string_view operation, const Tensor&);
/// Back in the type of the operand, if that is bf16 or f16.
Tensor rounded_as(const Tensor& operand, const Tensor& result);

Tensor symmetric_part(const Tensor&);  ///< (x + x^T) / 2

Shape batch_of(const Tensor& matrix);
Shape matrix_shape(const Shape& batch, std::int64_t rows, std::int64_t columns);

}  // namespace tutti
