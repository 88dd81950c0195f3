// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/decompositions.h>

#include <tutti/backend/cpu/linear_algebra/eigen_matrices.h>

#include <Eigen/Cholesky>

namespace tutti {

using Kind = MatrixDefect::Kind;

template <class T> MatrixDefect cholesky_decomposition(std::int64_t rows, const T* matrix, T* parts) {
  const Eigen::LLT<EigenMatrix<T>> factors(eigen_copy<T>(rows, rows, matrix));
  const auto diagonal = factors.matrixLLT().diagonal();
  // Eigen lets NaN and infinity on the diagonal pass.
  const bool positive = factors.info() == Eigen::Success && diagonal.allFinite() && (diagonal.array() > T(0)).all();
  if (positive) EigenRows<T>(parts, rows, rows) = factors.matrixL();
  return {positive ? Kind::none : Kind::not_positive_definite};
}

template MatrixDefect cholesky_decomposition(std::int64_t, const float*, float*);
template MatrixDefect cholesky_decomposition(std::int64_t, const double*, double*);

}  // namespace tutti
