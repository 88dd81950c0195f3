// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Products with factors of low rank, in host memory, f32, each in one fixed order: the same bits wherever they are
// computed. A factor is stored as `rank` contiguous rows, one for each of its columns.

namespace tutti::low_rank {

struct Size {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t rank = 0;
};

/// left [rank, rows] = (matrix right^T)^T, with matrix [rows, columns] and right [rank, columns].
void project_rows(const Size&, const float* matrix, const float* right, float* left);
/// right [rank, columns] = left matrix.
void project_columns(const Size&, const float* matrix, const float* left, float* right);
/// One row of left^T right.
void expand_row(const Size&, const float* left, const float* right, std::int64_t row, float* result);

/// Makes `count` rows of `length` orthonormal by Gram and Schmidt's modified process, twice over, which is enough
/// (Giraud and others 2005), with sums in f64. A row that depends on those before it, to f32's precision, becomes zero.
void orthonormalize(float* rows, std::int64_t count, std::int64_t length);

/// Makes a row 1 long; false, and nothing is changed, if it has no direction: it is zero or not finite.
bool normalize(float* row, std::int64_t length);

}  // namespace tutti::low_rank
