// SPDX-License-Identifier: Apache-2.0
#pragma once

// Matrices [..., rows, columns] taken apart and systems solved, each of the leading axes by itself; without gradients.
// Operands are f32 or f64, else DTypeError; shapes that do not fit throw ShapeError. A matrix that has no such result
// throws LinearAlgebraError when the kernel runs; errors name the operation that the thread was asked for.

#include <tutti/backend/array.h>
#include <tutti/backend/calls/kernel_arguments.h>

#include <cstdint>
#include <string_view>

namespace tutti {

/// "cholesky", "svdvals": the operation on tensors that does this.
std::string_view name_of(Factorization) noexcept;

/// The rows of the parts of a factorization, in all. ShapeError for a matrix that is not square, or is too wide.
std::int64_t factor_rows(Factorization, std::int64_t rows, std::int64_t columns);

/// The parts one below the other, as documented with the kinds: [..., factor rows, columns of the parts].
Array factorize(Factorization, const Array&);

struct LuFactors {
  Array factors;      ///< [..., n, n]: L below the diagonal, without its ones, and U
  Array permutation;  ///< [..., n] i64: row i of L U is the matrix's row permutation[i]
  Array sign;         ///< [..., 1]: 1 or -1, the permutation's
};
/// LU decomposition by partial pivoting, of square matrices; singular ones too.
LuFactors lu(const Array&);

/// X of A X = B: A [..., n, n], B [..., n, k], the leading axes equal. LinearAlgebraError for a singular A.
Array solve(const Array& matrix, const Array& right);
/// The same for a triangle of A; the rest of A is not read.
Array solve_triangular(Triangle, const Array& matrix, const Array& right);

}  // namespace tutti
