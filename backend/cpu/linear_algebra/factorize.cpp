// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/factorize.h>

#include <tutti/backend/cpu/linear_algebra/decompositions.h>

namespace tutti {

template <class T>
MatrixDefect factorize(Factorization kind, std::int64_t rows, std::int64_t columns, const T* matrix, T* parts) {
  switch (kind) {
    case Factorization::cholesky: return cholesky_decomposition(rows, matrix, parts);
    case Factorization::qr: return qr_decomposition(rows, columns, matrix, parts);
    case Factorization::svd: return svd_decomposition(rows, columns, matrix, true, parts);
    case Factorization::singular_values: return svd_decomposition(rows, columns, matrix, false, parts);
    case Factorization::eigh: return eigen_decomposition(rows, matrix, true, parts);
    case Factorization::eigenvalues: return eigen_decomposition(rows, matrix, false, parts);
  }
  return {};
}

template MatrixDefect factorize(Factorization, std::int64_t, std::int64_t, const float*, float*);
template MatrixDefect factorize(Factorization, std::int64_t, std::int64_t, const double*, double*);

}  // namespace tutti
