// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/decompositions.h>

#include <tutti/backend/cpu/linear_algebra/eigen_matrices.h>

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>

#include <algorithm>

// In one source, for they share most of what Eigen makes of them: apart they take half as much again to compile.

namespace tutti {

using DefectKind = MatrixDefect::Kind;

template <class T> MatrixDefect cholesky_decomposition(std::int64_t rows, const T* matrix, T* parts) {
  const Eigen::LLT<EigenMatrix<T>> factors(eigen_copy<T>(rows, rows, matrix));
  const auto diagonal = factors.matrixLLT().diagonal();
  // Eigen lets NaN and infinity on the diagonal pass.
  const bool positive = factors.info() == Eigen::Success && diagonal.allFinite() && (diagonal.array() > T(0)).all();
  if (positive) EigenRows<T>(parts, rows, rows) = factors.matrixL();
  return {positive ? DefectKind::none : DefectKind::not_positive_definite};
}

template MatrixDefect cholesky_decomposition(std::int64_t, const float*, float*);
template MatrixDefect cholesky_decomposition(std::int64_t, const double*, double*);

// In f64 also for f32: half as much to compile, and values that are right to the last digit.
template <class T> MatrixDefect eigen_decomposition(std::int64_t rows, const T* matrix, bool with_vectors, T* parts) {
  const EigenMatrix<double> a = eigen_copy<double>(rows, rows, matrix);
  if (!a.allFinite()) return {DefectKind::not_finite};
  const Eigen::SelfAdjointEigenSolver<EigenMatrix<double>> factors(
      a, with_vectors ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
  EigenRows<T> result(parts, with_vectors ? rows + 1 : 1, rows);
  result.bottomRows(1) = factors.eigenvalues().transpose().template cast<T>();
  if (with_vectors) result.topRows(rows) = factors.eigenvectors().template cast<T>();
  return {factors.info() == Eigen::Success ? DefectKind::none : DefectKind::no_convergence};
}

template MatrixDefect eigen_decomposition(std::int64_t, const float*, bool, float*);
template MatrixDefect eigen_decomposition(std::int64_t, const double*, bool, double*);

template <class T> MatrixDefect qr_decomposition(std::int64_t rows, std::int64_t columns, const T* matrix, T* parts) {
  const Eigen::HouseholderQR<EigenMatrix<T>> factors(eigen_copy<T>(rows, columns, matrix));
  EigenRows<T> result(parts, rows + columns, columns);
  result.topRows(rows) = factors.householderQ() * EigenMatrix<T>::Identity(rows, columns);
  result.bottomRows(columns) = factors.matrixQR().topRows(columns).template triangularView<Eigen::Upper>();
  return {};
}

template MatrixDefect qr_decomposition(std::int64_t, std::int64_t, const float*, float*);
template MatrixDefect qr_decomposition(std::int64_t, std::int64_t, const double*, double*);

// In f64 also for f32: half as much to compile, and values that are right to the last digit.
template <class T>
MatrixDefect svd_decomposition(std::int64_t rows, std::int64_t columns, const T* matrix, bool with_vectors, T* parts) {
  const EigenMatrix<double> a = eigen_copy<double>(rows, columns, matrix);
  if (!a.allFinite()) return {DefectKind::not_finite};
  const unsigned vectors = with_vectors ? Eigen::ComputeThinU | Eigen::ComputeThinV : 0U;
  const Eigen::BDCSVD<EigenMatrix<double>> factors(a, vectors);
  EigenRows<T> result(parts, with_vectors ? rows + columns + 1 : 1, std::min(rows, columns));
  result.bottomRows(1) = factors.singularValues().transpose().template cast<T>();
  if (with_vectors) {
    result.topRows(rows) = factors.matrixU().template cast<T>();
    result.middleRows(rows, columns) = factors.matrixV().template cast<T>();
  }
  return {factors.info() == Eigen::Success ? DefectKind::none : DefectKind::no_convergence};
}

template MatrixDefect svd_decomposition(std::int64_t, std::int64_t, const float*, bool, float*);
template MatrixDefect svd_decomposition(std::int64_t, std::int64_t, const double*, bool, double*);

}  // namespace tutti
