// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/decompositions.h>

#include <tutti/backend/cpu/linear_algebra/eigen_matrices.h>

#include <Eigen/QR>

namespace tutti {

template <class T> MatrixDefect qr_decomposition(std::int64_t rows, std::int64_t columns, const T* matrix, T* parts) {
  const Eigen::HouseholderQR<EigenMatrix<T>> factors(eigen_copy<T>(rows, columns, matrix));
  EigenRows<T> result(parts, rows + columns, columns);
  result.topRows(rows) = factors.householderQ() * EigenMatrix<T>::Identity(rows, columns);
  result.bottomRows(columns) = factors.matrixQR().topRows(columns).template triangularView<Eigen::Upper>();
  return {};
}

template MatrixDefect qr_decomposition(std::int64_t, std::int64_t, const float*, float*);
template MatrixDefect qr_decomposition(std::int64_t, std::int64_t, const double*, double*);

}  // namespace tutti
