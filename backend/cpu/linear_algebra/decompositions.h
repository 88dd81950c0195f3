// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/matrix_defect.h>

#include <cstdint>

namespace tutti {

// Eigen's decompositions, in a source of their own, which takes the compiler longest of all. Matrices are [rows,
// columns] and parts as `Factorization` has them, row-major; T is float or double.

/// parts [rows, rows]: the lower factor.
template <class T> MatrixDefect cholesky_decomposition(std::int64_t rows, const T* matrix, T* parts);

/// parts [rows + columns, columns]: Q above R.
template <class T> MatrixDefect qr_decomposition(std::int64_t rows, std::int64_t columns, const T* matrix, T* parts);

/// parts, of n = min(rows, columns) columns: U, V and the singular values, or the values alone.
template <class T>
MatrixDefect svd_decomposition(std::int64_t rows, std::int64_t columns, const T* matrix, bool with_vectors, T* parts);

/// parts [rows + 1, rows]: eigenvectors above the eigenvalues, or [1, rows]: the values alone.
template <class T> MatrixDefect eigen_decomposition(std::int64_t rows, const T* matrix, bool with_vectors, T* parts);

}  // namespace tutti
