// SPDX-License-Identifier: Apache-2.0
// Eigen's decompositions are dear to compile: all of those that give several parts are here.
#include <tutti/backend/cpu/factorize.h>

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined operands of its own AVX-512 intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>

#include <algorithm>

namespace tutti {
namespace {

using Kind = MatrixDefect::Kind;

template <class T> using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T> using Rows = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

MatrixDefect outcome(Eigen::ComputationInfo info) {
  return {info == Eigen::Success ? Kind::none : Kind::no_convergence};
}

template <class T> MatrixDefect cholesky(const Matrix<T>& a, Rows<T> lower) {
  const Eigen::LLT<Matrix<T>> factors(a);
  const auto diagonal = factors.matrixLLT().diagonal();
  // Eigen lets NaN and infinity on the diagonal pass.
  const bool positive = factors.info() == Eigen::Success && diagonal.allFinite() && (diagonal.array() > T(0)).all();
  if (positive) lower = factors.matrixL();
  return {positive ? Kind::none : Kind::not_positive_definite};
}

template <class T> MatrixDefect qr(const Matrix<T>& a, Rows<T> parts) {
  const Eigen::HouseholderQR<Matrix<T>> factors(a);
  const Eigen::Index columns = a.cols();
  parts.topRows(a.rows()) = factors.householderQ() * Matrix<T>::Identity(a.rows(), columns);
  parts.bottomRows(columns) = factors.matrixQR().topRows(columns).template triangularView<Eigen::Upper>();
  return {};
}

// In f64 also for f32: half as much to compile, and values that are right to the last digit.
using Wide = Matrix<double>;

template <class T> MatrixDefect svd(const Wide& a, bool with_vectors, Rows<T> parts) {
  if (!a.allFinite()) return {Kind::not_finite};
  const unsigned vectors = with_vectors ? Eigen::ComputeThinU | Eigen::ComputeThinV : 0U;
  const Eigen::BDCSVD<Wide> factors(a, vectors);
  parts.bottomRows(1) = factors.singularValues().transpose().cast<T>();
  if (with_vectors) {
    parts.topRows(a.rows()) = factors.matrixU().cast<T>();
    parts.middleRows(a.rows(), a.cols()) = factors.matrixV().cast<T>();
  }
  return outcome(factors.info());
}

template <class T> MatrixDefect eigh(const Wide& a, bool with_vectors, Rows<T> parts) {
  if (!a.allFinite()) return {Kind::not_finite};
  const Eigen::SelfAdjointEigenSolver<Wide> factors(a,
                                                    with_vectors ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
  parts.bottomRows(1) = factors.eigenvalues().transpose().cast<T>();
  if (with_vectors) parts.topRows(a.rows()) = factors.eigenvectors().cast<T>();
  return outcome(factors.info());
}

}  // namespace

template <class T>
MatrixDefect factorize(Factorization kind, std::int64_t rows, std::int64_t columns, const T* matrix, T* parts) {
  const Matrix<T> a =
      Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(matrix, rows, columns);
  const auto to = [&](std::int64_t count) { return Rows<T>(parts, count, std::min(rows, columns)); };
  switch (kind) {
    case Factorization::cholesky: return cholesky<T>(a, to(rows));
    case Factorization::qr: return qr<T>(a, to(rows + columns));
    case Factorization::svd: return svd<T>(a.template cast<double>(), true, to(rows + columns + 1));
    case Factorization::singular_values: return svd<T>(a.template cast<double>(), false, to(1));
    case Factorization::eigh: return eigh<T>(a.template cast<double>(), true, to(rows + 1));
    case Factorization::eigenvalues: return eigh<T>(a.template cast<double>(), false, to(1));
  }
  return {};
}

template MatrixDefect factorize(Factorization, std::int64_t, std::int64_t, const float*, float*);
template MatrixDefect factorize(Factorization, std::int64_t, std::int64_t, const double*, double*);

}  // namespace tutti
