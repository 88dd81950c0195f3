// SPDX-License-Identifier: Apache-2.0
#pragma once

// Eigen's matrices over row-major memory, for the sources that decompose them.

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined operands of its own AVX-512 intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>

#include <cstdint>

namespace tutti {

template <class T> using EigenMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T> using EigenRows = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

/// A copy in Eigen's own order, as To.
template <class To, class T> EigenMatrix<To> eigen_copy(std::int64_t rows, std::int64_t columns, const T* matrix) {
  using Rows = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  return Rows(matrix, rows, columns).template cast<To>();
}

}  // namespace tutti
