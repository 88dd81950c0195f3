// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products of a few rows with few columns, whose operands are read where they lie: packing them would take as long.

#include <tutti/backend/cpu/linear_algebra/gemm_blocks.h>
#include <tutti/backend/cpu/linear_algebra/product_tile.h>

#include <array>
#include <utility>

namespace tutti::narrow_product {

inline constexpr std::int64_t kMostRows = gemm_blocks::kMostBlockRows;
inline constexpr std::int64_t kMostTurned = 256;  // elements of b
/// Whether the first lanes of a vector are loaded as fast as all.
#if defined(TUTTI_AVX512) || defined(__AVX2__)
inline constexpr bool kLoadsFirstLanes = true;
#else
inline constexpr bool kLoadsFirstLanes = false;
#endif
template <class T> inline constexpr std::int64_t kMostColumns = product_tile::kMostVectors * kNativeLanes<T>;

/// True for a of so few rows, and b of so few columns, that packing b is no gain.
template <class T> bool is_narrow(std::int64_t m, std::int64_t n) {
  return m <= kMostRows && n <= kMostColumns<T> && (kLoadsFirstLanes || n % kNativeLanes<T> == 0);
}

/// True for b in rows that are not far apart.
template <class T> bool suits(std::int64_t m, std::int64_t n, const MatrixView<T>& b) {
  return is_narrow<T>(m, n) && !b.transposed && b.leading <= 2 * kMostColumns<T>;
}

template <class T> using Multiply = void (*)(std::int64_t depth, product_tile::Rows<T> a, const T* b,
                                             std::int64_t b_leading, T* c, std::int64_t c_leading, std::int64_t columns,
                                             bool accumulate);

/// Tiles of 1, 2, ... rows and so many vectors.
template <class T, std::size_t vectors> inline constexpr auto kTiles = []<std::size_t... i>(std::index_sequence<i...>) {
  return std::array<Multiply<T>, sizeof...(i)>{&product_tile::multiply_in_place<T, i + 1, vectors>...};
}(std::make_index_sequence<static_cast<std::size_t>(product_tile::kMostRows)>{});

template <class T> Multiply<T> tile_of(std::int64_t rows, std::int64_t vectors) {
  const auto place = static_cast<std::size_t>(rows - 1);
  if (vectors == 1) return kTiles<T, 1>[place];
  if constexpr (product_tile::kMostVectors == 3)
    if (vectors == 3) return kTiles<T, 3>[place];
  return kTiles<T, 2>[place];
}

/// True for b that is so small that turning it takes less than packing it.
template <class T> bool suits_turned(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView<T>& b) {
  return is_narrow<T>(m, n) && b.transposed && n * k <= kMostTurned;
}

/// `gemm` where it suits, with the bits of all others: sums are cut into the same parts.
template <class T> void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView<T>& a,
                                 const MatrixView<T>& b, T* c, std::int64_t c_leading, bool accumulate) {
  const gemm_blocks::Parts depths = gemm_blocks::Parts::of(gemm_blocks::kMostDepth, k);
  const std::int64_t vectors = divide_up(n, kNativeLanes<T>);
  const std::int64_t across = a.transposed ? 1 : a.leading;
  const std::int64_t step = a.transposed ? a.leading : 1;
  for (std::int64_t part = 0; part < depths.count; ++part) {
    const std::int64_t begin = depths.begin(part);
    for (std::int64_t row = 0; row < m; row += product_tile::kMostRows) {
      const std::int64_t rows = std::min(product_tile::kMostRows, m - row);
      tile_of<T>(rows, vectors)(depths.length(part), {a.rows_from(row).columns_from(begin).data, across, step},
                                b.rows_from(begin).data, b.leading, c + row * c_leading, c_leading, n,
                                accumulate || part > 0);
    }
  }
}

/// `gemm` where turning b suits.
template <class T> void multiply_turned(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView<T>& a,
                                        const MatrixView<T>& b, T* c, std::int64_t c_leading, bool accumulate) {
  T turned[kMostTurned];
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t step = 0; step < k; ++step) turned[step * n + i] = b.data[i * b.leading + step];
  multiply(m, n, k, a, MatrixView<T>{turned, n, false}, c, c_leading, accumulate);
}

}  // namespace tutti::narrow_product
