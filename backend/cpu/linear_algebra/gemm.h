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

/// Rows of a up to which `gemm` reads b where it is.
inline constexpr std::int64_t kFewRows = 4;

/// c = a b, or c += a b where `accumulate`, for a [m, k], b [k, n] and row-major c [m, n] with rows `c_leading` apart.
/// Runs on the calling thread alone, which keeps up to 3.4 MB to work in. Throws std::bad_alloc.
///
/// Bits of an element depend on its row of a, its column of b, k and `accumulate` alone, with two exceptions, where
/// lanes hold parts of its sum: a transposed b and at most kFewRows rows, and a c of one column without gaps and an a
/// that is not transposed.
template <class T> void gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
                             std::int64_t c_leading, bool accumulate = false);

extern template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>, float*,
                          std::int64_t, bool);
extern template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<double>, MatrixView<double>, double*,
                          std::int64_t, bool);

}  // namespace tutti
