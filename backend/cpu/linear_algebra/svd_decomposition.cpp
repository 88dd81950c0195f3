// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/decompositions.h>

#include <tutti/backend/cpu/linear_algebra/eigen_matrices.h>

#include <Eigen/SVD>

#include <algorithm>

namespace tutti {

using Kind = MatrixDefect::Kind;

// In f64 also for f32: half as much to compile, and values that are right to the last digit.
template <class T>
MatrixDefect svd_decomposition(std::int64_t rows, std::int64_t columns, const T* matrix, bool with_vectors, T* parts) {
  const EigenMatrix<double> a = eigen_copy<double>(rows, columns, matrix);
  if (!a.allFinite()) return {Kind::not_finite};
  const unsigned vectors = with_vectors ? Eigen::ComputeThinU | Eigen::ComputeThinV : 0U;
  const Eigen::BDCSVD<EigenMatrix<double>> factors(a, vectors);
  EigenRows<T> result(parts, with_vectors ? rows + columns + 1 : 1, std::min(rows, columns));
  result.bottomRows(1) = factors.singularValues().transpose().template cast<T>();
  if (with_vectors) {
    result.topRows(rows) = factors.matrixU().template cast<T>();
    result.middleRows(rows, columns) = factors.matrixV().template cast<T>();
  }
  return {factors.info() == Eigen::Success ? Kind::none : Kind::no_convergence};
}

template MatrixDefect svd_decomposition(std::int64_t, std::int64_t, const float*, bool, float*);
template MatrixDefect svd_decomposition(std::int64_t, std::int64_t, const double*, bool, double*);

}  // namespace tutti
