// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/linear_algebra/linear_algebra.h>

namespace tutti {

std::string_view name_of(Factorization kind) noexcept {
  switch (kind) {
    case Factorization::cholesky: return "cholesky";
    case Factorization::qr: return "qr";
    case Factorization::svd: return "svd";
    case Factorization::singular_values: return "svdvals";
    case Factorization::eigh: return "eigh";
    case Factorization::eigenvalues: return "eigvalsh";
  }
  return "factorize";
}

std::int64_t factor_rows(Factorization kind, std::int64_t rows, std::int64_t columns) {
  switch (kind) {
    case Factorization::cholesky: return rows;
    case Factorization::qr:
    case Factorization::svd: break;
    case Factorization::singular_values:
    case Factorization::eigenvalues: return 1;
    case Factorization::eigh: return rows + 1;
  }
  return rows + columns + (kind == Factorization::svd ? 1 : 0);
}

}  // namespace tutti
