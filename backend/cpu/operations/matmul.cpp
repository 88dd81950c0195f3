// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/linear_algebra/gemm.h>
#include <tutti/backend/cpu/linear_algebra/matrix_of.h>
#include <tutti/backend/cpu/packs/pack_loops.h>
#include <tutti/backend/cpu/packs/wide_lanes.h>
#include <tutti/backend/cpu/runtime/divide_up.h>
#include <tutti/backend/elementwise/activations.h>
#include <tutti/backend/memory/storage.h>

#include <algorithm>
#include <optional>

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

  /// `copied`: pieces are computed elsewhere, so that none may be large.
  Pieces(const ProductSize& size, std::int64_t products, std::int64_t threads, bool copied) {
    constexpr std::int64_t kRows = 256;
    constexpr std::int64_t kElements = std::int64_t{1} << 18U;
    constexpr std::int64_t kCopiedColumns = 1024;
    if (copied) across = divide_up(size.n, kCopiedColumns);
    down = divide_up(size.m, std::max(kRows, kElements * across / size.n));
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

/// The place where a piece is computed: that of the result, or for 16 bits one in f32, from the device's pool.
template <class S> class PiecePlace {
 public:
  using T = ComputedIn<S>;

  PiecePlace(Device device, MemoryPool& pool, std::int64_t most_elements) {
    if constexpr (is_short_float<S>)
      storage_.emplace(device, pool, static_cast<std::size_t>(most_elements) * sizeof(T));
  }
  T* of(S* result) const {
    if constexpr (is_short_float<S>)
      return reinterpret_cast<T*>(storage_->data());
    else
      return result;
  }

 private:
  std::optional<Storage> storage_;
};

/// What a kernel of products runs with.
struct Place {
  Device device;
  MemoryPool& pool;
  ThreadPool& threads;

  Place(Device on, CpuBackend& backend) : device(on), pool(backend.pool(on)), threads(backend.threads(on)) {}
};

/// Products of the matrices of two arrays, in pieces. `finish(piece, leading, rows, columns, first_column, to)` does
/// what comes after the product to a piece and writes it `to` its place in the result, whose rows are as long as the
/// right operand's; both may be one.
template <class S, class Finish>
void multiply_all(const Place& place, const Array& lhs, const Array& rhs, const Array& output, const Finish& finish) {
  const ProductSize size(lhs, rhs);
  const std::int64_t products = output.size() / (size.m * size.n);
  const Pieces pieces(size, products, place.threads.threads(), is_short_float<S>);
  const std::int64_t of_product = pieces.down * pieces.across;
  constexpr std::int64_t kGrain = std::int64_t{1} << 20U;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kGrain * of_product / std::max<std::int64_t>(1, size.m * size.n * size.k));
  place.threads.parallel_for(products * of_product, grain, [&](std::int64_t begin, std::int64_t end) {
    const PiecePlace<S> piece(place.device, place.pool,
                              divide_up(size.m, pieces.down) * divide_up(size.n, pieces.across));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t product = i / of_product;
      const std::int64_t row = size.m * (i % of_product / pieces.across) / pieces.down;
      const std::int64_t end_row = size.m * (i % of_product / pieces.across + 1) / pieces.down;
      const std::int64_t column = size.n * (i % pieces.across) / pieces.across;
      const std::int64_t end_column = size.n * (i % pieces.across + 1) / pieces.across;
      S* const to = output.data<S>() + (product * size.m + row) * size.n + column;
      ComputedIn<S>* const computed = piece.of(to);
      const std::int64_t leading = is_short_float<S> ? end_column - column : size.n;
      gemm<S>(end_row - row, end_column - column, size.k, matrix_of<S>(lhs, product).rows_from(row),
              matrix_of<S>(rhs, product).columns_from(column), computed, leading);
      finish(computed, leading, end_row - row, end_column - column, column, to);
    }
  });
}

/// Writes a piece as it is.
template <class S> struct Written {
  std::int64_t result_leading;

  void operator()(const ComputedIn<S>* piece, std::int64_t leading, std::int64_t rows, std::int64_t columns,
                  std::int64_t, S* to) const {
    if constexpr (is_short_float<S>)
      for (std::int64_t row = 0; row < rows; ++row) narrow(piece + row * leading, to + row * result_leading, columns);
  }
};

/// What comes after the product: the same values as one operation after the other, rounded once.
template <class S, class Activation> struct Epilogue {
  using T = ComputedIn<S>;

  const S* bias;  // null: none
  Written<S> written;
  Activation activation;

  void operator()(T* piece, std::int64_t leading, std::int64_t rows, std::int64_t columns, std::int64_t first_column,
                  S* to) const {
    const S* const add = bias == nullptr ? nullptr : bias + first_column;
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const computed = piece + row * leading;
      for_each_pack<T>(0, columns, [&](std::int64_t i, std::int64_t count) {
        Pack<T> x = load_up_to(computed + i, count);
        if (add != nullptr) x = x + load_wide_up_to(add + i, count);
        store_up_to(activation.value(x), computed + i, count);
      });
    }
    written(piece, leading, rows, columns, first_column, to);
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
  const auto work = [place = Place(output.device(), *this), activation](const Array& x, const Array& w, const Array& b,
                                                                        const Array& to) {
    visit_any_floating(to.dtype(), [&]<class S>(std::type_identity<S>) {
      visit_activation(activation, [&]<class Activation>(Activation function) {
        const Epilogue<S, Activation> finish{b.defined() ? b.data<S>() : nullptr, {to.length(1)}, function};
        multiply_all<S>(place, x, w, to, finish);
      });
    });
  };
  stream(output.device()).launch("linear", work, input, weight, bias, output);
}

void CpuBackend::matmul(const Array& lhs, const Array& rhs, const Array& output) {
  const auto work = [place = Place(output.device(), *this)](const Array& a, const Array& b, const Array& to) {
    visit_any_floating(to.dtype(), [&]<class S>(std::type_identity<S>) {
      multiply_all<S>(place, a, b, to, Written<S>{to.length(-1)});
    });
  };
  stream(output.device()).launch("matmul", work, lhs, rhs, output);
}

}  // namespace tutti
