// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/linear_algebra/gemm.h>
#include <tutti/backend/cpu/linear_algebra/matrix_of.h>
#include <tutti/backend/cpu/operations/divide_up.h>
#include <tutti/backend/cpu/packs/pack_loops.h>
#include <tutti/backend/elementwise/activations.h>

#include <algorithm>

namespace tutti {
namespace {

struct ProductSize {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;

  ProductSize(const Array& lhs, const Array& rhs) : m(lhs.length(-2)), n(rhs.length(-1)), k(lhs.length(-1)) {}
};

/// How each of several products is cut into pieces, which bits do not depend on (gemm.h): rows so that a piece of the
/// result is in a cache when it is finished, and both ways until each thread has work.
struct Pieces {
  std::int64_t down = 1;
  std::int64_t across = 1;

  Pieces(const ProductSize& size, std::int64_t products, std::int64_t threads) {
    constexpr std::int64_t kRows = 256;
    constexpr std::int64_t kElements = std::int64_t{1} << 18U;
    down = divide_up(size.m, std::max(kRows, kElements / size.n));
    // Enough for all, and where packing operands anew is lost in the work, enough for threads that are not alike.
    cut(size, products, threads, std::int64_t{1} << 21U);
    if (threads > 1) cut(size, products, 4 * threads, std::int64_t{1} << 26U);
  }

 private:
  /// Until there are `wanted` pieces, as long as each has `worth` multiplications.
  void cut(const ProductSize& size, std::int64_t products, std::int64_t wanted, std::int64_t worth) {
    constexpr std::int64_t kLeast = 2 * kFewRows;  // rows or columns: gemm may take few rows in another way
    while (products * down * across < wanted && size.m * size.n * size.k / (down * across) >= 2 * worth) {
      std::int64_t& longer = size.m / down >= size.n / across ? down : across;
      if (std::max(size.m / down, size.n / across) < 2 * kLeast) return;
      longer *= 2;
    }
  }
};

/// Calls `finish(piece, rows, columns, first_column)` for each piece of the result.
template <class T, class Finish>
void multiply_all(ThreadPool& threads, const Array& lhs, const Array& rhs, const Array& output, const Finish& finish) {
  const ProductSize size(lhs, rhs);
  const std::int64_t products = output.size() / (size.m * size.n);
  const Pieces pieces(size, products, threads.threads());
  const std::int64_t of_product = pieces.down * pieces.across;
  constexpr std::int64_t kGrain = std::int64_t{1} << 20U;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kGrain * of_product / std::max<std::int64_t>(1, size.m * size.n * size.k));
  threads.parallel_for(products * of_product, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t product = i / of_product;
      const std::int64_t row = size.m * (i % of_product / pieces.across) / pieces.down;
      const std::int64_t end_row = size.m * (i % of_product / pieces.across + 1) / pieces.down;
      const std::int64_t column = size.n * (i % pieces.across) / pieces.across;
      const std::int64_t end_column = size.n * (i % pieces.across + 1) / pieces.across;
      T* const to = output.data<T>() + (product * size.m + row) * size.n + column;
      gemm(end_row - row, end_column - column, size.k, matrix_of<T>(lhs, product).rows_from(row),
           matrix_of<T>(rhs, product).columns_from(column), to, size.n);
      finish(to, end_row - row, end_column - column, column);
    }
  });
}

/// What comes after the product, in the rows of a piece: the same values as one operation after the other.
template <class T, class Activation> struct Epilogue {
  const T* bias;  // null: none
  std::int64_t leading;
  Activation activation;

  void operator()(T* piece, std::int64_t rows, std::int64_t columns, std::int64_t first_column) const {
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const to = piece + row * leading;
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
