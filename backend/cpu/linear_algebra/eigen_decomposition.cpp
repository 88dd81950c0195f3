// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/decompositions.h>

#include <tutti/backend/cpu/linear_algebra/eigen_matrices.h>

#include <Eigen/Eigenvalues>

namespace tutti {

using Kind = MatrixDefect::Kind;

// In f64 also for f32: half as much to compile, and values that are right to the last digit.
template <class T> MatrixDefect eigen_decomposition(std::int64_t rows, const T* matrix, bool with_vectors, T* parts) {
  const EigenMatrix<double> a = eigen_copy<double>(rows, rows, matrix);
  if (!a.allFinite()) return {Kind::not_finite};
  const Eigen::SelfAdjointEigenSolver<EigenMatrix<double>> factors(
      a, with_vectors ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
  EigenRows<T> result(parts, with_vectors ? rows + 1 : 1, rows);
  result.bottomRows(1) = factors.eigenvalues().transpose().template cast<T>();
  if (with_vectors) result.topRows(rows) = factors.eigenvectors().template cast<T>();
  return {factors.info() == Eigen::Success ? Kind::none : Kind::no_convergence};
}

template MatrixDefect eigen_decomposition(std::int64_t, const float*, bool, float*);
template MatrixDefect eigen_decomposition(std::int64_t, const double*, bool, double*);

}  // namespace tutti
