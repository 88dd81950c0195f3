// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products of bf16 in the processor's tiles (AMX): 32 rows times 32 columns at once, whose sums take 32 steps with each
// instruction.

#include <tutti/backend/cpu/linear_algebra/gemm_blocks.h>
#include <tutti/backend/cpu/linear_algebra/packing.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/processor/instruction_sets.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tutti {

/// The arithmetic of TDPBF16PS, on pairs as in pair_dots.h: of up to kUnit pairs it takes the sum of their lower
/// halves' products and the sum of the upper halves', each step by step, adds these, and adds that to the sum so far.
/// It takes subnormal numbers for zeros, and gives none.
struct TileDots {
  using Sum = float;
  using Packed = std::int32_t;
  static constexpr std::int64_t kSteps = 2;
  static constexpr std::int64_t kUnit = 16;

  static bool is_there() { return products_of_bf16() == Bf16Products::tiles; }
};

#if defined(__x86_64__)

namespace bf16_tiles {

inline constexpr std::int64_t kTile = 16;  // rows of a tile, and its columns of 4 bytes

/// Shapes of all tiles, as LDTILECFG reads them.
struct alignas(64) Configuration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t column_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(Configuration) == 64);

/// Rows and columns of sums, and the pairs that one instruction takes.
struct Shape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t pairs;
  bool operator==(const Shape&) const = default;
};

/// The tiles of the calling thread. 0 to 3 hold the sums of two rows of tiles and two columns, 4 and 5 those of a, 6
/// and 7 those of b. They are given back at the end, so that the system need not save them.
class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  ~Tiles() {
    if (shape_.pairs != 0) asm volatile("tilerelease" ::: "memory");
    shape_ = Shape{};
  }

  /// c = a b, or c += a b where `accumulate`, for `depth` pairs; rows and columns are at most 32. Row i of a begins at
  /// a[i * depth], row k of b at b[k * width].
  static void multiply(std::int64_t depth, const std::int32_t* a, std::int64_t rows, const std::int32_t* b,
                       std::int64_t width, std::int64_t columns, float* c, std::int64_t c_leading, bool accumulate) {
    const std::int64_t whole = depth / kTile * kTile;
    if (whole > 0) add(whole, a, depth, b, width, c, c_leading, {rows, columns, kTile}, accumulate);
    if (whole == depth) return;
    add(depth - whole, a + whole, depth, b + whole * width, width, c, c_leading, {rows, columns, depth - whole},
        accumulate || whole > 0);
  }

 private:
  static void configure(const Shape& shape) {
    if (shape == shape_) return;
    Configuration configuration;
    const auto set = [&](std::size_t tile, std::int64_t rows, std::int64_t columns) {
      if (rows <= 0 || columns <= 0) return;
      configuration.rows[tile] = static_cast<std::uint8_t>(rows);
      configuration.column_bytes[tile] = static_cast<std::uint16_t>(columns * 4);
    };
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t before = static_cast<std::int64_t>(i) * kTile;
      const std::int64_t rows = std::min(shape.rows - before, kTile);
      const std::int64_t columns = std::min(shape.columns - before, kTile);
      set(4 + i, rows, shape.pairs);
      set(6 + i, shape.pairs, columns);
      for (std::size_t j = 0; j < 2; ++j)
        set(2 * i + j, rows, std::min(shape.columns - static_cast<std::int64_t>(j) * kTile, kTile));
    }
    asm volatile("ldtilecfg %0" ::"m"(configuration) : "memory");
    shape_ = shape;
  }

#define TUTTI_TILE_LOAD(tile, from, bytes) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(bytes) : "memory")
#define TUTTI_TILE_STORE(tile, to, bytes) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(bytes) : "memory")
#define TUTTI_TILE_BEGIN(tile, from, bytes)              \
  do {                                                   \
    if (accumulate)                                      \
      TUTTI_TILE_LOAD(tile, from, bytes);                \
    else                                                 \
      asm volatile("tilezero %%tmm" #tile ::: "memory"); \
  } while (false)
#define TUTTI_TILE_DOT(sum, a, b) asm volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::: "memory")

  /// `multiply` for a whole number of shape.pairs, of a whose rows are `a_leading` apart.
  static void add(std::int64_t depth, const std::int32_t* a, std::int64_t a_leading, const std::int32_t* b,
                  std::int64_t width, float* c, std::int64_t c_leading, const Shape& shape, bool accumulate) {
    configure(shape);
    const bool lower = shape.rows > kTile;
    const bool right = shape.columns > kTile;
    const std::int64_t a_bytes = a_leading * 4;
    const std::int64_t b_bytes = width * 4;
    const std::int64_t c_bytes = c_leading * 4;
    float* const c_lower = c + kTile * c_leading;
    TUTTI_TILE_BEGIN(0, c, c_bytes);
    if (right) TUTTI_TILE_BEGIN(1, c + kTile, c_bytes);
    if (lower) TUTTI_TILE_BEGIN(2, c_lower, c_bytes);
    if (lower && right) TUTTI_TILE_BEGIN(3, c_lower + kTile, c_bytes);
    const std::int32_t* const a_lower = a + kTile * a_leading;
    if (lower && right) {
      for (std::int64_t k = 0; k < depth; k += shape.pairs, b += shape.pairs * width) {
        TUTTI_TILE_LOAD(6, b, b_bytes);
        TUTTI_TILE_LOAD(4, a + k, a_bytes);
        TUTTI_TILE_DOT(0, 4, 6);
        TUTTI_TILE_LOAD(7, b + kTile, b_bytes);
        TUTTI_TILE_DOT(1, 4, 7);
        TUTTI_TILE_LOAD(5, a_lower + k, a_bytes);
        TUTTI_TILE_DOT(2, 5, 6);
        TUTTI_TILE_DOT(3, 5, 7);
      }
    } else {
      for (std::int64_t k = 0; k < depth; k += shape.pairs, b += shape.pairs * width) {
        TUTTI_TILE_LOAD(6, b, b_bytes);
        TUTTI_TILE_LOAD(4, a + k, a_bytes);
        TUTTI_TILE_DOT(0, 4, 6);
        if (right) {
          TUTTI_TILE_LOAD(7, b + kTile, b_bytes);
          TUTTI_TILE_DOT(1, 4, 7);
        }
        if (lower) {
          TUTTI_TILE_LOAD(5, a_lower + k, a_bytes);
          TUTTI_TILE_DOT(2, 5, 6);
        }
      }
    }
    TUTTI_TILE_STORE(0, c, c_bytes);
    if (right) TUTTI_TILE_STORE(1, c + kTile, c_bytes);
    if (lower) TUTTI_TILE_STORE(2, c_lower, c_bytes);
    if (lower && right) TUTTI_TILE_STORE(3, c_lower + kTile, c_bytes);
  }

#undef TUTTI_TILE_LOAD
#undef TUTTI_TILE_STORE
#undef TUTTI_TILE_BEGIN
#undef TUTTI_TILE_DOT

  static constinit inline thread_local Shape shape_{};  // no pairs: none is configured
};

}  // namespace bf16_tiles

namespace gemm_blocks {

/// Rows of a, each with its pairs side by side.
template <> struct Panel<BFloat16, TileDots> {
  static constexpr std::int64_t kRows = 2 * bf16_tiles::kTile;
  using Use = bf16_tiles::Tiles;

  static void pack(const MatrixView<BFloat16>& a, std::int64_t steps, std::int64_t count, std::int32_t* to) {
    const std::int64_t depth = divide_up(steps, TileDots::kSteps);
    if (a.transposed) return pack_columns(a, steps, count, to, depth);
    for (std::int64_t i = 0; i < count; ++i, to += depth) {
      to[depth - 1] = 0;  // the last pair may lack its upper half
      std::memcpy(to, a.data + i * a.leading, static_cast<std::size_t>(steps) * sizeof(BFloat16));
    }
  }

  static void multiply(std::int64_t depth, const std::int32_t* panel, std::int64_t count, const Strip& strip,
                       const std::int32_t* packed, float* c, std::int64_t c_leading, bool accumulate) {
    bf16_tiles::Tiles::multiply(depth, panel, count, packed, strip.vectors * StripCuts<TileDots>::kLanes, strip.columns,
                                c, c_leading, accumulate);
  }

 private:
  static void pack_columns(const MatrixView<BFloat16>& a, std::int64_t steps, std::int64_t count, std::int32_t* to,
                           std::int64_t depth) {
    constexpr std::int64_t kLanes = packing::kQuadLanes<std::int32_t>;
    alignas(64) std::int32_t pairs[kMostDepth / TileDots::kSteps * kRows];
    packing::pack<BFloat16, TileDots, kRows>(a.data, a.leading, false, steps, count, pairs);
    const std::int64_t whole = depth - depth % kLanes;
    for (std::int64_t i = 0; i < count - count % kLanes; i += kLanes)
      for (std::int64_t k = 0; k < whole; k += kLanes) {
        packing::Quad<std::int32_t>::type rows[kLanes];
        for (std::int64_t each = 0; each < kLanes; ++each)
          rows[each] = packing::load_quad<std::int32_t>(pairs + (k + each) * kRows + i);
        packing::turn_quads<std::int32_t>(rows, to + i * depth + k, depth);
      }
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t k = i < count - count % kLanes ? whole : 0; k < depth; ++k)
        to[i * depth + k] = pairs[k * kRows + i];
  }
};

}  // namespace gemm_blocks

#endif

}  // namespace tutti
