// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/gemm.h>
#include <tutti/backend/cpu/pack_loops.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// How a product is cut into tiles, by its size alone: a few where each is worth a hand-over between threads, more
/// where packing the operands anew for each is lost in the work.
struct Tiles {
  std::int64_t rows;
  std::int64_t columns;

  Tiles(std::int64_t m, std::int64_t n, std::int64_t k) : rows(m), columns(n) {
    constexpr std::int64_t kWorthFew = std::int64_t{1} << 23U;  // multiplications in a tile that is cut further
    constexpr std::int64_t kWorthMany = std::int64_t{1} << 26U;
    constexpr std::int64_t kFew = 4;
    constexpr std::int64_t kMany = 64;
    for (std::int64_t tiles = 1; tiles < kMany; tiles *= 2) {
      if (rows * columns * k < (tiles < kFew ? kWorthFew : kWorthMany)) return;
      std::int64_t& longer = rows >= columns ? rows : columns;
      longer = divide_up(divide_up(longer, 2), 16) * 16;
    }
  }
};

struct Product {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;

  Product(const Array& lhs, const Array& rhs) : m(lhs.length(-2)), n(rhs.length(-1)), k(lhs.length(-1)) {}
};

/// The matrix of `operand` at place `batch` of its leading axes.
template <class T> MatrixView<T> matrix(const Array& operand, std::int64_t batch) {
  const T* data = operand.data<T>();
  const std::size_t row = operand.rank() - 2;
  for (std::size_t axis = row; axis-- > 0;) {
    data += batch % operand.shape()[axis] * operand.strides()[axis];
    batch /= operand.shape()[axis];
  }
  const std::int64_t row_stride = operand.strides()[row];
  const std::int64_t column_stride = operand.strides()[row + 1];
  const bool by_rows = column_stride == 1 && row_stride >= operand.shape()[row + 1];
  return {data, by_rows ? row_stride : column_stride, !by_rows};
}

template <class T> void multiply_all(ThreadPool& threads, const Array& lhs, const Array& rhs, const Array& output) {
  const Product size(lhs, rhs);
  const std::int64_t batches = output.size() / (size.m * size.n);
  T* const result = output.data<T>();
  const Tiles tile(size.m, size.n, size.k);
  if (batches == 1 && tile.rows == size.m && tile.columns == size.n)
    return gemm(size.m, size.n, size.k, matrix<T>(lhs, 0), matrix<T>(rhs, 0), result, size.n);

  const std::int64_t across = divide_up(size.n, tile.columns);
  const std::int64_t tiles = divide_up(size.m, tile.rows) * across;
  constexpr std::int64_t kGrain = std::int64_t{1} << 20U;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (tile.rows * tile.columns * size.k));
  threads.parallel_for(batches * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t batch = i / tiles;
      const std::int64_t row = i % tiles / across * tile.rows;
      const std::int64_t column = i % tiles % across * tile.columns;
      gemm(std::min(tile.rows, size.m - row), std::min(tile.columns, size.n - column), size.k,
           matrix<T>(lhs, batch).rows_from(row), matrix<T>(rhs, batch).columns_from(column),
           result + (batch * size.m + row) * size.n + column, size.n);
    }
  });
}

}  // namespace

void CpuBackend::matmul(const Array& lhs, const Array& rhs, const Array& output) {
  stream(output.device())
      .launch(
          "matmul",
          [&pool = threads(output.device())](const Array& a, const Array& b, const Array& to) {
            visit_floating(to.dtype(), [&]<class T>(std::type_identity<T>) { multiply_all<T>(pool, a, b, to); });
          },
          lhs, rhs, output);
}

}  // namespace tutti
