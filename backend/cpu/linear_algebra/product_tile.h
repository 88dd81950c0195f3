// SPDX-License-Identifier: Apache-2.0
#pragma once

// The innermost loop of matrix products: a few rows times a few vectors of columns, whose sums stay in registers.

#include <tutti/backend/cpu/packs/native_vector.h>

#include <array>
#include <utility>

namespace tutti::product_tile {

/// Most rows, and vectors of columns, of a tile: its sums, a row of b and an element of a fill the registers.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr std::int64_t kMostRows = 12;
inline constexpr std::int64_t kMostVectors = 2;
#elif defined(__FMA__)
inline constexpr std::int64_t kMostRows = 4;
inline constexpr std::int64_t kMostVectors = 3;
#else  // a product takes a register, too
inline constexpr std::int64_t kMostRows = 4;
inline constexpr std::int64_t kMostVectors = 2;
#endif

/// Sums of products of elements, step by step.
template <class T> struct MultiplyAdds {
  using Sum = T;
  using Packed = T;
  static constexpr std::int64_t kSteps = 1;  ///< that a packed element holds
  static constexpr std::int64_t kUnit = 1;   ///< packed elements that are taken at once, but for the last

  TUTTI_ALWAYS_INLINE static Native<T> add(const Native<T>& a, const Native<T>& b, const Native<T>& sum) {
    return native_fma(a, b, sum);
  }
};

/// The rows of a: row i of step k at data[i * across + k * step].
template <class Packed> struct Rows {
  const Packed* data;
  std::int64_t across;
  std::int64_t step;
};

/// The sums of a tile. `Arithmetic` is MultiplyAdds or PairDots (pair_dots.h).
template <class Arithmetic, std::size_t rows, std::size_t vectors> class Sums {
 public:
  using T = typename Arithmetic::Sum;
  using Packed = typename Arithmetic::Packed;

  /// Adds a column of a times a row of b: `rows` elements that lie `across` apart, and `vectors` vectors.
  TUTTI_ALWAYS_INLINE void add(const Packed* a, std::int64_t across, const Packed* b) {
    add(a, across, b, std::make_index_sequence<rows>{}, std::make_index_sequence<vectors>{});
  }

  /// The same, with the row of b in vectors.
  TUTTI_ALWAYS_INLINE void add_vectors(const Packed* a, std::int64_t across, const Native<Packed>* row) {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      (add_row(sums_[i], a[static_cast<std::int64_t>(i) * across] - Native<Packed>{}, row,
               std::make_index_sequence<vectors>{}),
       ...);
    }(std::make_index_sequence<rows>{});
  }

  /// Writes the sums, or adds them to what is there; of the last vector the first `last` lanes.
  TUTTI_ALWAYS_INLINE void store_in(T* c, std::int64_t c_leading, std::int64_t last, bool accumulate) const {
#pragma GCC unroll 12
    for (std::size_t i = 0; i < rows; ++i, c += c_leading)
#pragma GCC unroll 3
      for (std::size_t v = 0; v < vectors; ++v) {
        T* const to = c + static_cast<std::int64_t>(v) * kNativeLanes<T>;
        if (v + 1 < vectors || last == kNativeLanes<T>)
          native_store<T>(accumulate ? native_load(to) + sums_[i][v] : sums_[i][v], to);
        else
          native_store_first<T>(accumulate ? native_load_first<T>(to, last) + sums_[i][v] : sums_[i][v], to, last);
      }
  }

 private:
  template <std::size_t... i, std::size_t... v> TUTTI_ALWAYS_INLINE void add(const Packed* a, std::int64_t across,
                                                                             const Packed* b, std::index_sequence<i...>,
                                                                             std::index_sequence<v...> all) {
    Native<Packed> row[] = {native_load(b + static_cast<std::int64_t>(v) * kNativeLanes<Packed>)...};
    (keep_in_register(row[v]), ...);
    (add_row(sums_[i], a[static_cast<std::int64_t>(i) * across] - Native<Packed>{}, row, all), ...);
  }
  template <std::size_t... v> TUTTI_ALWAYS_INLINE static void add_row(Native<T>* sums, const Native<Packed>& a,
                                                                      const Native<Packed>* b,
                                                                      std::index_sequence<v...>) {
    ((sums[v] = Arithmetic::add(a, b[v], sums[v])), ...);
  }

  Native<T> sums_[rows][vectors] = {};
};

/// Steps of b that are on their way from the second cache: its strip is longer than what the first one has room for.
inline constexpr std::int64_t kStepsAhead = 16;

/// Asks for the cache lines of what is about to be read. They may lie behind the operand's end: that does no harm.
template <class T> TUTTI_ALWAYS_INLINE void prefetch_line_by_line(const T* from, std::int64_t count) {
  constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < count; i += kLine) __builtin_prefetch(from + i);
}

/// c = a b, or c += a b where `accumulate`, for `depth` packed steps of a and of b, whose rows are `vectors` vectors,
/// without gaps; `columns` of c are written, the last vector's in part. Each sum is taken in the order of the steps.
template <class Arithmetic, std::size_t rows, std::size_t vectors>
TUTTI_ALWAYS_INLINE void multiply_tile(std::int64_t depth, Rows<typename Arithmetic::Packed> a,
                                       const typename Arithmetic::Packed* b, typename Arithmetic::Sum* c,
                                       std::int64_t c_leading, std::int64_t columns, bool accumulate) {
  using T = typename Arithmetic::Sum;
  constexpr std::int64_t kWidth = static_cast<std::int64_t>(vectors) * kNativeLanes<T>;
  for (std::size_t i = 0; i < rows; ++i) {
    __builtin_prefetch(c + static_cast<std::int64_t>(i) * c_leading, 1);
    __builtin_prefetch(c + static_cast<std::int64_t>(i) * c_leading + columns - 1, 1);
  }
  Sums<Arithmetic, rows, vectors> sums;
  const typename Arithmetic::Packed* from = a.data;
#pragma GCC unroll 1  // several steps at once ask for more registers than there are
  for (std::int64_t k = 0; k < depth; ++k, from += a.step, b += kWidth) {
    prefetch_line_by_line(b + kStepsAhead * kWidth, kWidth);
    sums.add(from, a.across, b);
  }
  sums.store_in(c, c_leading, columns - (kWidth - kNativeLanes<T>), accumulate);
}

template <class Arithmetic, std::size_t rows, std::size_t vectors>
void multiply(std::int64_t depth, Rows<typename Arithmetic::Packed> a, const typename Arithmetic::Packed* b,
              typename Arithmetic::Sum* c, std::int64_t c_leading, std::int64_t columns, bool accumulate) {
  multiply_tile<Arithmetic, rows, vectors>(depth, a, b, c, c_leading, columns, accumulate);
}

/// The same for a without gaps, which the compiler is told: element i of step k at data[k * rows + i].
template <class Arithmetic, std::size_t rows, std::size_t vectors>
void multiply_packed(std::int64_t depth, Rows<typename Arithmetic::Packed> a, const typename Arithmetic::Packed* b,
                     typename Arithmetic::Sum* c, std::int64_t c_leading, std::int64_t columns, bool accumulate) {
  multiply_tile<Arithmetic, rows, vectors>(depth, {a.data, 1, static_cast<std::int64_t>(rows)}, b, c, c_leading,
                                           columns, accumulate);
}

/// The same for b where it lies: step k at b[k * b_leading], no lane behind the `columns` is read.
template <class T, std::size_t rows, std::size_t vectors>
void multiply_in_place(std::int64_t depth, Rows<T> a, const T* b, std::int64_t b_leading, T* c, std::int64_t c_leading,
                       std::int64_t columns, bool accumulate) {
  constexpr std::int64_t kBefore = (static_cast<std::int64_t>(vectors) - 1) * kNativeLanes<T>;  // the last vector
  const std::int64_t last = columns - kBefore;
  Sums<MultiplyAdds<T>, rows, vectors> sums;
  for (std::int64_t k = 0; k < depth; ++k, b += b_leading) {
    Native<T> row[vectors];
#pragma GCC unroll 3
    for (std::size_t v = 0; v + 1 < vectors; ++v)
      row[v] = native_load(b + static_cast<std::int64_t>(v) * kNativeLanes<T>);
    row[vectors - 1] = last == kNativeLanes<T> ? native_load(b + kBefore) : native_load_first<T>(b + kBefore, last);
    sums.add_vectors(a.data + k * a.step, a.across, row);
  }
  sums.store_in(c, c_leading, last, accumulate);
}

/// The functions for each size of a tile.
template <class Arithmetic> class Multipliers {
 public:
  using Packed = typename Arithmetic::Packed;
  using Multiply = void (*)(std::int64_t depth, Rows<Packed> a, const Packed* b, typename Arithmetic::Sum* c,
                            std::int64_t c_leading, std::int64_t columns, bool accumulate);

  static Multiply of(std::int64_t rows, std::int64_t vectors) { return at(kPlain, rows, vectors); }
  static Multiply of_packed(std::int64_t rows, std::int64_t vectors) { return at(kPacked, rows, vectors); }

 private:
  static constexpr std::size_t kCount = static_cast<std::size_t>(kMostRows * kMostVectors);
  using Table = std::array<Multiply, kCount>;

  static Multiply at(const Table& table, std::int64_t rows, std::int64_t vectors) {
    return table[static_cast<std::size_t>((rows - 1) * kMostVectors + vectors - 1)];
  }
  template <std::size_t... i> static constexpr Table plain(std::index_sequence<i...>) {
    return {&multiply<Arithmetic, i / kMostVectors + 1, i % kMostVectors + 1>...};
  }
  template <std::size_t... i> static constexpr Table packed(std::index_sequence<i...>) {
    return {&multiply_packed<Arithmetic, i / kMostVectors + 1, i % kMostVectors + 1>...};
  }

  static constexpr Table kPlain = plain(std::make_index_sequence<kCount>{});
  static constexpr Table kPacked = packed(std::make_index_sequence<kCount>{});
};

}  // namespace tutti::product_tile
