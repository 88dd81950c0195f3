// SPDX-License-Identifier: Apache-2.0
#pragma once

// Copies of parts of matrices in the order in which product_tile.h reads them.

#include <tutti/backend/cpu/linear_algebra/product_tile.h>
#include <tutti/backend/cpu/packs/native_vector.h>

#include <array>
#include <cstdint>
#include <utility>

namespace tutti::packing {

/// Most columns of a strip.
template <class T> inline constexpr std::size_t kMostStripColumns =
    static_cast<std::size_t>(product_tile::kMostVectors * kNativeLanes<T>);

/// 16 bytes of elements.
template <class T> struct Quad;
template <> struct Quad<float> {
  using type [[gnu::vector_size(16)]] = float;
};
template <> struct Quad<double> {
  using type [[gnu::vector_size(16)]] = double;
};
template <class T> struct [[gnu::packed, gnu::may_alias]] QuadMemory {
  typename Quad<T>::type vector;
};
template <class T> inline constexpr std::int64_t kQuadLanes = 16 / sizeof(T);

template <class T> TUTTI_ALWAYS_INLINE typename Quad<T>::type load_quad(const T* from) {
  return reinterpret_cast<const QuadMemory<T>*>(from)->vector;
}
template <class T> TUTTI_ALWAYS_INLINE void store_quad(const typename Quad<T>::type& vector, T* to) {
  reinterpret_cast<QuadMemory<T>*>(to)->vector = vector;
}

/// Turns a square of kQuadLanes: to[k * to_step + i] = from[i][k].
TUTTI_ALWAYS_INLINE void turn_square(const float* const* from, float* to, std::int64_t to_step) {
  const auto a = load_quad(from[0]);
  const auto b = load_quad(from[1]);
  const auto c = load_quad(from[2]);
  const auto d = load_quad(from[3]);
  const auto ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const auto cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  store_quad<float>(__builtin_shufflevector(ab, cd, 0, 1, 4, 5), to);
  store_quad<float>(__builtin_shufflevector(ab, cd, 2, 3, 6, 7), to + to_step);
  const auto ab_behind = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const auto cd_behind = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store_quad<float>(__builtin_shufflevector(ab_behind, cd_behind, 0, 1, 4, 5), to + 2 * to_step);
  store_quad<float>(__builtin_shufflevector(ab_behind, cd_behind, 2, 3, 6, 7), to + 3 * to_step);
}
TUTTI_ALWAYS_INLINE void turn_square(const double* const* from, double* to, std::int64_t to_step) {
  const auto a = load_quad(from[0]);
  const auto b = load_quad(from[1]);
  store_quad<double>(__builtin_shufflevector(a, b, 0, 2), to);
  store_quad<double>(__builtin_shufflevector(a, b, 1, 3), to + to_step);
}

/// The same for rows `from_step` apart.
template <class T>
TUTTI_ALWAYS_INLINE void turn_square(const T* from, std::int64_t from_step, T* to, std::int64_t to_step) {
  const T* rows[kQuadLanes<T>];
  for (std::int64_t i = 0; i < kQuadLanes<T>; ++i) rows[i] = from + i * from_step;
  turn_square(rows, to, to_step);
}

/// Packs rows: to[k * width + i] = from[i * leading + k] for i < count, and 0 for count <= i < width. A few rows at a
/// time, for they often lie a multiple of 4 KB apart, of which a cache holds few.
template <class T> TUTTI_ALWAYS_INLINE void pack_turned(const T* from, std::int64_t leading, std::int64_t depth,
                                                        std::int64_t count, std::int64_t width, T* to) {
  const std::int64_t squares = count - count % kQuadLanes<T>;
  const std::int64_t steps = depth - depth % kQuadLanes<T>;
  for (std::int64_t i = 0; i < squares; i += kQuadLanes<T>) {
    for (std::int64_t k = 0; k < steps; k += kQuadLanes<T>)
      turn_square(from + i * leading + k, leading, to + k * width + i, width);
    for (std::int64_t k = steps; k < depth; ++k)
      for (std::int64_t each = i; each < i + kQuadLanes<T>; ++each) to[k * width + each] = from[each * leading + k];
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t i = squares; i < count; ++i) to[k * width + i] = from[i * leading + k];
    for (std::int64_t i = count; i < width; ++i) to[k * width + i] = T(0);
  }
}

/// Packs columns: to[k * width + i] = from[k * leading + i] for i < count, and 0 for count <= i < width.
template <class T> TUTTI_ALWAYS_INLINE void pack_straight(const T* from, std::int64_t leading, std::int64_t depth,
                                                          std::int64_t count, std::int64_t width, T* to) {
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t i = 0; i < count; ++i) to[k * width + i] = from[k * leading + i];
    for (std::int64_t i = count; i < width; ++i) to[k * width + i] = T(0);
  }
}

/// One of the above, for lines that are rows in memory (`turned`) or columns; `width` of them, or the first `count`.
template <class T, std::int64_t width>
void pack(const T* from, std::int64_t leading, bool turned, std::int64_t depth, std::int64_t count, T* to) {
  if (count == width)  // known to the compiler
    return turned ? pack_turned(from, leading, depth, width, width, to)
                  : pack_straight(from, leading, depth, width, width, to);
  return turned ? pack_turned(from, leading, depth, count, width, to)
                : pack_straight(from, leading, depth, count, width, to);
}

template <class T>
using Pack = void (*)(const T* from, std::int64_t leading, bool turned, std::int64_t depth, std::int64_t count, T* to);

/// `pack` for widths of 1, 2, ... `count` times `unit`.
template <class T, std::int64_t unit, std::size_t count>
inline constexpr auto kPack = []<std::size_t... i>(std::index_sequence<i...>) {
  return std::array<Pack<T>, count>{&pack<T, (static_cast<std::int64_t>(i) + 1) * unit>...};
}(std::make_index_sequence<count>{});

}  // namespace tutti::packing
