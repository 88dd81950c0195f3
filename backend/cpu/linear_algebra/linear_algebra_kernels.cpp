// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/linear_algebra_kernels.h>

#include <tutti/backend/calls/matrix_defect.h>
#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/cpu/linear_algebra/factorize.h>
#include <tutti/backend/cpu/packs/pack_loops.h>
#include <tutti/backend/linear_algebra/linear_algebra.h>

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined operands of its own AVX-512 intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/LU>

#include <algorithm>
#include <mutex>
#include <optional>

namespace tutti {
namespace {

template <class T> using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T> using Rows = Eigen::Map<RowMajor<T>>;
template <class T> using ConstantRows = Eigen::Map<const RowMajor<T>>;

std::int64_t matrix_size(const Array& operand) { return operand.length(-2) * operand.length(-1); }

/// Matrices that one block of a loop treats: about a million multiplications.
std::int64_t grain(const Array& operand) {
  constexpr std::int64_t kWork = std::int64_t{1} << 20U;
  const std::int64_t shorter = std::min(operand.length(-2), operand.length(-1));
  return std::max<std::int64_t>(1, kWork / (matrix_size(operand) * shorter));
}

/// `treat(i)` for each matrix of the operand; then the error of the first that is not sound.
template <class Treat>
void for_each_matrix(ThreadPool& pool, std::string_view operation, const Array& operand, const Treat& treat) {
  std::mutex finding;
  std::optional<std::int64_t> first;
  MatrixDefect found;
  pool.parallel_for(operand.size() / matrix_size(operand), grain(operand), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const MatrixDefect defect = treat(i);
      if (defect.kind == MatrixDefect::Kind::none) continue;
      const std::lock_guard lock(finding);
      if (first && *first < i) continue;
      first = i;
      found = defect;
    }
  });
  if (first) raise_defect(operation, found, *first, operand.shape());
}

template <class T> void lu_of(std::int64_t n, const T* matrix, T* factors, std::int64_t* permutation, T* sign) {
  const Eigen::PartialPivLU<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>> result(ConstantRows<T>(matrix, n, n));
  Rows<T>(factors, n, n) = result.matrixLU();
  const auto& places = result.permutationP();  // row i becomes row places[i]
  for (std::int64_t i = 0; i < n; ++i) permutation[places.indices()[i]] = i;
  *sign = static_cast<T>(places.determinant());
}

template <class T>
MatrixDefect substitute(Triangle triangle, std::int64_t n, std::int64_t columns, const T* matrix, T* x) {
  const ConstantRows<T> a(matrix, n, n);
  if (!triangle.unit)
    for (std::int64_t i = 0; i < n; ++i)
      if (a(i, i) == T(0)) return {MatrixDefect::Kind::singular, i};
  Rows<T> unknown(x, n, columns);
  if (triangle.upper && triangle.unit)
    a.template triangularView<Eigen::UnitUpper>().solveInPlace(unknown);
  else if (triangle.upper)
    a.template triangularView<Eigen::Upper>().solveInPlace(unknown);
  else if (triangle.unit)
    a.template triangularView<Eigen::UnitLower>().solveInPlace(unknown);
  else
    a.template triangularView<Eigen::Lower>().solveInPlace(unknown);
  return {};
}

void factorize_each(CpuBackend& backend, Factorization kind, const Array& input, const Array& output) {
  const auto work = [kind, &pool = backend.threads(output.device())](const Array& from, const Array& to) {
    visit_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      for_each_matrix(pool, name_of(kind), from, [&](std::int64_t i) {
        return tutti::factorize(kind, from.length(-2), from.length(-1), from.data<T>() + i * matrix_size(from),
                                to.data<T>() + i * matrix_size(to));
      });
    });
  };
  backend.stream(output.device()).launch(name_of(kind), work, input, output);
}

void lu_of_each(CpuBackend& backend, const Array& input, const Array& factors, const Array& permutation,
                const Array& sign) {
  const auto work = [&pool = backend.threads(input.device())](const Array& from, const Array& to, const Array& places,
                                                              const Array& signs) {
    const std::int64_t n = from.length(-1);
    visit_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
      for_each_matrix(pool, "lu", from, [&](std::int64_t i) {
        lu_of(n, from.data<T>() + i * n * n, to.data<T>() + i * n * n, places.data<std::int64_t>() + i * n,
              signs.data<T>() + i);
        return MatrixDefect{};
      });
    });
  };
  backend.stream(input.device()).launch("lu", work, input, factors, permutation, sign);
}

void substitute_each(CpuBackend& backend, const TriangularSystem& system, const Array& matrix, const Array& right,
                     const Array& output) {
  const auto work = [system, &pool = backend.threads(output.device())](const Array& a, const Array& b,
                                                                       const Array& to) {
    const std::int64_t n = a.length(-1);
    const std::int64_t size = matrix_size(b);
    visit_floating(a.dtype(), [&]<class T>(std::type_identity<T>) {
      for_each_matrix(pool, system.operation, a, [&](std::int64_t i) {
        T* const x = to.data<T>() + i * size;
        std::copy_n(b.data<T>() + i * size, size, x);
        return substitute(system.triangle, n, b.length(-1), a.data<T>() + i * n * n, x);
      });
    });
  };
  backend.stream(output.device()).launch("solve_triangular", work, matrix, right, output);
}

constexpr LinearAlgebraKernels kKernels{factorize_each, lu_of_each, substitute_each};

}  // namespace

void provide_linear_algebra() noexcept { CpuBackend::provide(kKernels); }

}  // namespace tutti
