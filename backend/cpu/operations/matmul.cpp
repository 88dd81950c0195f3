// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/linear_algebra/gemm.h>
#include <tutti/backend/cpu/operations/divide_up.h>
#include <tutti/backend/cpu/packs/pack_loops.h>
#include <tutti/backend/elementwise/activations.h>

#include <algorithm>

namespace tutti {
namespace {

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

struct ProductSize {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;

  ProductSize(const Array& lhs, const Array& rhs) : m(lhs.length(-2)), n(rhs.length(-1)), k(lhs.length(-1)) {}
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

/// Calls `finish(tile, rows, columns, first_column)` for each tile, while it is in the cache.
template <class T, class Finish>
void multiply_all(ThreadPool& threads, const Array& lhs, const Array& rhs, const Array& output, const Finish& finish) {
  const ProductSize size(lhs, rhs);
  const std::int64_t batches = output.size() / (size.m * size.n);
  T* const result = output.data<T>();
  const Tiles tile(size.m, size.n, size.k);
  if (batches == 1 && tile.rows == size.m && tile.columns == size.n) {
    gemm(size.m, size.n, size.k, matrix<T>(lhs, 0), matrix<T>(rhs, 0), result, size.n);
    return finish(result, size.m, size.n, 0);
  }

  const std::int64_t across = divide_up(size.n, tile.columns);
  const std::int64_t tiles = divide_up(size.m, tile.rows) * across;
  constexpr std::int64_t kGrain = std::int64_t{1} << 20U;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (tile.rows * tile.columns * size.k));
  threads.parallel_for(batches * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t batch = i / tiles;
      const std::int64_t row = i % tiles / across * tile.rows;
      const std::int64_t column = i % tiles % across * tile.columns;
      const std::int64_t rows = std::min(tile.rows, size.m - row);
      const std::int64_t columns = std::min(tile.columns, size.n - column);
      T* const to = result + (batch * size.m + row) * size.n + column;
      gemm(rows, columns, size.k, matrix<T>(lhs, batch).rows_from(row), matrix<T>(rhs, batch).columns_from(column), to,
           size.n);
      finish(to, rows, columns, column);
    }
  });
}

/// What comes after the product, in the rows of a tile: the same values as one operation after the other.
template <class T, class Activation> struct Epilogue {
  const T* bias;  // null: none
  std::int64_t leading;
  Activation activation;

  void operator()(T* tile, std::int64_t rows, std::int64_t columns, std::int64_t first_column) const {
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const to = tile + row * leading;
      const T* const add = bias == nullptr ? nullptr : bias + first_column;
      for_each_pack<T>(0, columns, [&](std::int64_t i, std::int64_t count) {
        Pack<T> x = load_up_to(to + i, count);
        if (add != nullptr) x = x + load_up_to(add + i, count);
        store_up_to(activation.value(x), to + i, count);
      });
    }
  }
};

struct NoActivation {
  template <class X> X value(const X& x) const { return x; }
};

template <class F> void visit_activation(LinearActivation activation, const F& f) {
  switch (activation) {
    case LinearActivation::none: return f(NoActivation{});
    case LinearActivation::relu: return f(elementwise::Relu{});
    case LinearActivation::gelu: return f(elementwise::Gelu{});
  }
}

}  // namespace

void CpuBackend::linear(const Array& input, const Array& weight, const Array& bias, LinearActivation activation,
                        const Array& output) {
  const auto work = [&pool = threads(output.device()), activation](const Array& x, const Array& w, const Array& b,
                                                                   const Array& to) {
    visit_floating(to.dtype(), [&]<class T>(std::type_identity<T>) {
      visit_activation(activation, [&]<class Activation>(Activation function) {
        multiply_all<T>(pool, x, w, to,
                        Epilogue<T, Activation>{b.defined() ? b.data<T>() : nullptr, to.length(1), function});
      });
    });
  };
  stream(output.device()).launch("linear", work, input, weight, bias, output);
}

void CpuBackend::matmul(const Array& lhs, const Array& rhs, const Array& output) {
  stream(output.device())
      .launch(
          "matmul",
          [&pool = threads(output.device())](const Array& a, const Array& b, const Array& to) {
            visit_floating(to.dtype(), [&]<class T>(std::type_identity<T>) {
              multiply_all<T>(pool, a, b, to, [](T*, std::int64_t, std::int64_t, std::int64_t) {});
            });
          },
          lhs, rhs, output);
}

}  // namespace tutti
