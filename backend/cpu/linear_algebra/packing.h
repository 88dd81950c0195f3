// SPDX-License-Identifier: Apache-2.0
#pragma once

// Copies of parts of matrices in the order in which product_tile.h reads them.

#include <tutti/backend/cpu/linear_algebra/product_tile.h>
#include <tutti/backend/cpu/packs/native_vector.h>
#include <tutti/backend/cpu/packs/wide_lanes.h>

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
template <> struct Quad<std::int32_t> {
  using type [[gnu::vector_size(16)]] = std::int32_t;
};
template <class T> struct [[gnu::packed, gnu::may_alias]] QuadMemory {
  typename Quad<T>::type vector;
};
template <class T> inline constexpr std::int64_t kQuadLanes = 16 / sizeof(T);

template <class T> TUTTI_ALWAYS_INLINE typename Quad<T>::type load_quad(const void* from) {
  return static_cast<const QuadMemory<T>*>(from)->vector;
}
template <class T> TUTTI_ALWAYS_INLINE void store_quad(const typename Quad<T>::type& vector, T* to) {
  reinterpret_cast<QuadMemory<T>*>(to)->vector = vector;
}

/// How `Arithmetic` wants elements of S: at(from, apart) makes a packed element of as many as it has steps, which lie
/// `apart`; first(from) of the first of them, with zeros for the others; quad(from) makes kQuadLanes of elements that
/// follow each other.
template <class S, class Arithmetic> struct Packer {
  using Packed = typename Arithmetic::Packed;

  TUTTI_ALWAYS_INLINE static Packed at(const S* from, std::int64_t) { return static_cast<Packed>(*from); }
  TUTTI_ALWAYS_INLINE static Packed first(const S* from) { return static_cast<Packed>(*from); }
  TUTTI_ALWAYS_INLINE static typename Quad<Packed>::type quad(const S* from) {
    if constexpr (is_short_float<S>)
      return wide_lanes::load_four(from);
    else
      return load_quad<Packed>(from);
  }
  /// `count` packed elements from as many columns.
  TUTTI_ALWAYS_INLINE static void columns(const S* from, std::int64_t, std::int64_t count, Packed* to) {
    widen(from, to, count);
  }
};

/// The same for pairs of 16 bits.
template <class S, class Arithmetic>
  requires(Arithmetic::kSteps == 2)
struct Packer<S, Arithmetic> {
  using Packed = std::int32_t;

  TUTTI_ALWAYS_INLINE static Packed at(const S* from, std::int64_t apart) {
    return static_cast<Packed>(from[0].bits | static_cast<std::uint32_t>(from[apart].bits) << 16U);
  }
  TUTTI_ALWAYS_INLINE static Packed first(const S* from) { return static_cast<Packed>(from->bits); }
  TUTTI_ALWAYS_INLINE static Quad<Packed>::type quad(const S* from) { return load_quad<Packed>(from); }
  TUTTI_ALWAYS_INLINE static void columns(const S* from, std::int64_t apart, std::int64_t count, Packed* to) {
    constexpr std::int64_t kLanes = kNativeLanes<Packed>;
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const auto lower = __builtin_convertvector(wide_lanes::load_shorts(from + i), Native<Packed>);
      const auto upper = __builtin_convertvector(wide_lanes::load_shorts(from + apart + i), Native<Packed>);
      native_store<Packed>(lower | upper << 16, to + i);
    }
    for (; i < count; ++i) to[i] = at(from + i, apart);
  }
};

/// Turns a square of kQuadLanes: to[k * to_step + i] = rows[i][k].
template <class T>
TUTTI_ALWAYS_INLINE void turn_quads(const typename Quad<T>::type* rows, T* to, std::int64_t to_step) {
  if constexpr (kQuadLanes<T> == 2) {
    store_quad<T>(__builtin_shufflevector(rows[0], rows[1], 0, 2), to);
    store_quad<T>(__builtin_shufflevector(rows[0], rows[1], 1, 3), to + to_step);
  } else {
    const auto ab = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
    const auto cd = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
    store_quad<T>(__builtin_shufflevector(ab, cd, 0, 1, 4, 5), to);
    store_quad<T>(__builtin_shufflevector(ab, cd, 2, 3, 6, 7), to + to_step);
    const auto ab_behind = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
    const auto cd_behind = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
    store_quad<T>(__builtin_shufflevector(ab_behind, cd_behind, 0, 1, 4, 5), to + 2 * to_step);
    store_quad<T>(__builtin_shufflevector(ab_behind, cd_behind, 2, 3, 6, 7), to + 3 * to_step);
  }
}

/// Turns a square of elements, as what they are computed in: to[k * to_step + i] = from[i][k].
template <class S> TUTTI_ALWAYS_INLINE void turn_square(const S* const* from, ComputedIn<S>* to, std::int64_t to_step) {
  using T = ComputedIn<S>;
  typename Quad<T>::type rows[kQuadLanes<T>];
  for (std::int64_t i = 0; i < kQuadLanes<T>; ++i) rows[i] = Packer<S, product_tile::MultiplyAdds<T>>::quad(from[i]);
  turn_quads<T>(rows, to, to_step);
}

/// Packs rows: with kSteps of 1, to[k * width + i] = from[i * leading + k] for i < count, and 0 for count <= i < width.
/// A few rows at a time, for they often lie a multiple of 4 KB apart, of which a cache holds few.
template <class S, class Arithmetic>
TUTTI_ALWAYS_INLINE void pack_turned(const S* from, std::int64_t leading, std::int64_t depth, std::int64_t count,
                                     std::int64_t width, typename Arithmetic::Packed* to) {
  using Packed = typename Arithmetic::Packed;
  using Pack = Packer<S, Arithmetic>;
  constexpr std::int64_t kSteps = Arithmetic::kSteps;
  constexpr std::int64_t kLanes = kQuadLanes<Packed>;
  const std::int64_t squares = count - count % kLanes;
  const std::int64_t whole = depth / kSteps;  // packed steps; one more holds what is left
  const std::int64_t turned = whole - whole % kLanes;
  for (std::int64_t i = 0; i < squares; i += kLanes) {
    for (std::int64_t k = 0; k < turned; k += kLanes) {
      typename Quad<Packed>::type rows[kLanes];
      for (std::int64_t each = 0; each < kLanes; ++each) {
        rows[each] = Pack::quad(from + (i + each) * leading + k * kSteps);
        __builtin_prefetch(from + (i + kLanes + each) * leading + k * kSteps);  // the rows below, which are next
      }
      turn_quads<Packed>(rows, to + k * width + i, width);
    }
    for (std::int64_t k = turned; k < whole; ++k)
      for (std::int64_t each = i; each < i + kLanes; ++each)
        to[k * width + each] = Pack::at(from + each * leading + k * kSteps, 1);
  }
  for (std::int64_t k = 0; k < whole; ++k) {
    for (std::int64_t i = squares; i < count; ++i) to[k * width + i] = Pack::at(from + i * leading + k * kSteps, 1);
    for (std::int64_t i = count; i < width; ++i) to[k * width + i] = Packed(0);
  }
  if (whole * kSteps == depth) return;
  for (std::int64_t i = 0; i < width; ++i)
    to[whole * width + i] = i < count ? Pack::first(from + i * leading + whole * kSteps) : Packed(0);
}

/// Packs columns: with kSteps of 1, to[k * width + i] = from[k * leading + i] for i < count, and 0 for count <= i <
/// width.
template <class S, class Arithmetic>
TUTTI_ALWAYS_INLINE void pack_straight(const S* from, std::int64_t leading, std::int64_t depth, std::int64_t count,
                                       std::int64_t width, typename Arithmetic::Packed* to) {
  using Packed = typename Arithmetic::Packed;
  using Pack = Packer<S, Arithmetic>;
  constexpr std::int64_t kSteps = Arithmetic::kSteps;
  const std::int64_t whole = depth / kSteps;
  for (std::int64_t k = 0; k < whole; ++k) {
    Pack::columns(from + k * kSteps * leading, leading, count, to + k * width);
    for (std::int64_t i = count; i < width; ++i) to[k * width + i] = Packed(0);
  }
  if (whole * kSteps == depth) return;
  for (std::int64_t i = 0; i < width; ++i)
    to[whole * width + i] = i < count ? Pack::first(from + whole * kSteps * leading + i) : Packed(0);
}

/// One of the above, for lines that are rows in memory (`turned`) or columns; `width` of them, or the first `count`.
template <class S, class Arithmetic, std::int64_t width> void pack(const S* from, std::int64_t leading, bool turned,
                                                                   std::int64_t depth, std::int64_t count,
                                                                   typename Arithmetic::Packed* to) {
  if (count == width)  // known to the compiler
    return turned ? pack_turned<S, Arithmetic>(from, leading, depth, width, width, to)
                  : pack_straight<S, Arithmetic>(from, leading, depth, width, width, to);
  return turned ? pack_turned<S, Arithmetic>(from, leading, depth, count, width, to)
                : pack_straight<S, Arithmetic>(from, leading, depth, count, width, to);
}

template <class S, class Arithmetic> using Pack = void (*)(const S* from, std::int64_t leading, bool turned,
                                                           std::int64_t depth, std::int64_t count,
                                                           typename Arithmetic::Packed* to);

/// `pack` for widths of 1, 2, ... `count` times `unit`. `depth` counts steps of the sum; what is left of the last
/// packed step is zeros.
template <class S, class Arithmetic, std::int64_t unit, std::size_t count>
inline constexpr auto kPack = []<std::size_t... i>(std::index_sequence<i...>) {
  return std::array<Pack<S, Arithmetic>, count>{&pack<S, Arithmetic, (static_cast<std::int64_t>(i) + 1) * unit>...};
}(std::make_index_sequence<count>{});

}  // namespace tutti::packing
