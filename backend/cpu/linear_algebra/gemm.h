// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tutti {

/// A matrix in memory: element (i, j) at data[i * leading + j], or at data[j * leading + i] when transposed.
template <class T> struct MatrixView {
  const T* data;
  std::int64_t leading;
  bool transposed = false;

  /// The matrix from row i, or from column j, on.
  MatrixView rows_from(std::int64_t i) const { return {data + (transposed ? i : i * leading), leading, transposed}; }
  MatrixView columns_from(std::int64_t j) const { return {data + (transposed ? j * leading : j), leading, transposed}; }
};

/// c = a b, or c += a b where `accumulate`, for a [m, k], b [k, n] and row-major c [m, n] with rows `c_leading` apart;
/// on the calling thread alone. How it computes, and so every bit, depends on m, n, k and the transpositions only.
/// Throws Error when the library behind it fails.
template <class T> void gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
                             std::int64_t c_leading, bool accumulate = false);

extern template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>, float*,
                          std::int64_t, bool);
extern template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<double>, MatrixView<double>, double*,
                          std::int64_t, bool);

}  // namespace tutti
