// SPDX-License-Identifier: Apache-2.0
#pragma once

// Images in tiles, for Winograd's filtering: vectors have a lane for each tile.

#include <tutti/backend/cpu/convolution/image_columns.h>
#include <tutti/backend/cpu/convolution/winograd_points.h>
#include <tutti/backend/cpu/packs/even_odd.h>
#include <tutti/backend/cpu/packs/wide_lanes.h>
#include <tutti/backend/cpu/runtime/divide_up.h>
#include <tutti/backend/cpu/runtime/scratch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tutti::winograd {

inline constexpr std::int64_t kPlanes = kPoints * kPoints;

constexpr std::int64_t whole_vectors(std::int64_t count) { return divide_up(count, kLanes) * kLanes; }

template <std::size_t first, std::size_t... i>
TUTTI_ALWAYS_INLINE Vector zip(const Vector& a, const Vector& b, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, b, (first + i / 2 + i % 2 * sizeof...(i))...);
}
inline constexpr auto kEach = std::make_index_sequence<static_cast<std::size_t>(kLanes)>{};

/// Parts a row of kLanes tiles, kResults elements each: lane t of to[j] holds from[kResults * t + j].
TUTTI_ALWAYS_INLINE void part_tiles(const float* from, Vector (&to)[kResults]) {
  Vector x[kResults];
  for (std::int64_t i = 0; i < kResults; ++i) x[i] = native_load(from + i * kLanes);
  const EvenOdd<float> low(x[0], x[1]);
  const EvenOdd<float> high(x[2], x[3]);
  const EvenOdd<float> even(low.even, high.even);
  const EvenOdd<float> odd(low.odd, high.odd);
  to[0] = even.even;
  to[1] = odd.even;
  to[2] = even.odd;
  to[3] = odd.odd;
}

/// The inverse of `part_tiles`.
TUTTI_ALWAYS_INLINE void join_tiles(const Vector (&from)[kResults], float* to) {
  constexpr auto kHalf = static_cast<std::size_t>(kLanes / 2);
  const Vector even[] = {zip<0>(from[0], from[2], kEach), zip<kHalf>(from[0], from[2], kEach)};
  const Vector odd[] = {zip<0>(from[1], from[3], kEach), zip<kHalf>(from[1], from[3], kEach)};
  for (std::int64_t i = 0; i < 2; ++i) {
    native_store<float>(zip<0>(even[i], odd[i], kEach), to + 2 * i * kLanes);
    native_store<float>(zip<kHalf>(even[i], odd[i], kEach), to + (2 * i + 1) * kLanes);
  }
}

/// Rows of tiles, counted through all images. Its tiles, and zeros up to a whole vector, are the lanes.
struct Block {
  std::int64_t first_row;
  std::int64_t rows;
  std::int64_t tiles_across;
  std::int64_t tiles_down;  // rows of tiles in an image
  std::int64_t tiles;
  std::int64_t lanes;

  Block(std::int64_t first, std::int64_t count, std::int64_t across, std::int64_t down)
      : first_row(first),
        rows(count),
        tiles_across(across),
        tiles_down(down),
        tiles(count * across),
        lanes(whole_vectors(tiles)) {}

  /// Elements of a row of all tiles, kResults for each.
  std::int64_t line() const { return lanes * kResults; }

  /// Calls `f(row, image, the row's first result in the image)`.
  template <class F> void for_each_row(const F& f) const {
    for (std::int64_t row = 0; row < rows; ++row)
      f(row, (first_row + row) / tiles_down, (first_row + row) % tiles_down * kResults);
  }
};

/// Elements that the tiles of a block see of one channel: for each row and column of a tile, `lanes` elements. One
/// thread's.
template <class S> class SeenTiles {
 public:
  /// `size`: of the group of channels; `image_step`: elements from one image to the next.
  SeenTiles(const ConvolutionSizes& size, std::int64_t image_step, const Block& block, Device device, MemoryPool& pool)
      : size_(size),
        image_step_(image_step),
        block_(block),
        seen_(device, pool, kPlanes * block.lanes + kLanes),
        strips_(device, pool, kPoints * block.line()),
        tails_(device, pool, kPoints * block.rows * kOverlap) {
    std::fill_n(strips_.data(), kPoints * block.line(), 0.0F);  // zeros beside images stay
    std::fill_n(tails_.data(), kPoints * block.rows * kOverlap, 0.0F);
  }

  /// `channel`: of the first image.
  void read(const S* channel) {
    const std::int64_t left = size_.geometry.padding[1];
    const std::int64_t width = kResults * block_.tiles_across;
    const std::int64_t before = std::min(size_.width, width - left);
    block_.for_each_row([&](std::int64_t row, std::int64_t image, std::int64_t first) {
      const std::int64_t top = first - size_.geometry.padding[0];
      const S* const from = channel + image * image_step_ + top * size_.width;
      for (std::int64_t i = std::max<std::int64_t>(0, -top); i < std::min(kPoints, size_.height - top); ++i) {
        widen(from + i * size_.width, strips_.data() + i * block_.line() + row * width + left, before);
        for (std::int64_t j = before; j < size_.width; ++j)
          tail(i, row)[left + j - width] = static_cast<float>(from[i * size_.width + j]);
      }
    });
    for (std::int64_t i = 0; i < kPoints; ++i) part(i);
  }

  const float* at(std::int64_t row, std::int64_t column) const {
    return seen_.data() + (row * kPoints + column) * block_.lanes;
  }

 private:
  static constexpr std::int64_t kOverlap = kPoints - kResults;

  float* tail(std::int64_t i, std::int64_t row) const { return tails_.data() + (i * block_.rows + row) * kOverlap; }

  // The last columns of a tile are the first of the next one.
  void part(std::int64_t i) {
    float* const to = seen_.data() + i * kPoints * block_.lanes;
    const float* const strip = strips_.data() + i * block_.line();
    for (std::int64_t lane = 0; lane < block_.lanes; lane += kLanes) {
      Vector columns[kResults];
      part_tiles(strip + lane * kResults, columns);
      for (std::int64_t j = 0; j < kResults; ++j) native_store<float>(columns[j], to + j * block_.lanes + lane);
    }
    for (std::int64_t j = 0; j < kOverlap; ++j) {
      float* const behind = to + (kResults + j) * block_.lanes;
      for (std::int64_t lane = 0; lane < block_.lanes; lane += kLanes)
        native_store<float>(native_load(to + j * block_.lanes + lane + 1), behind + lane);
      behind[block_.lanes - 1] = 0.0F;
      for (std::int64_t row = 0; row < block_.rows; ++row)
        behind[(row + 1) * block_.tiles_across - 1] = tail(i, row)[j];
    }
  }

  const ConvolutionSizes& size_;
  const std::int64_t image_step_;
  const Block& block_;
  Scratch<float> seen_;
  Scratch<float> strips_;  // rows of the tiles without the columns that they share with the next
  Scratch<float> tails_;   // columns behind the last tile of each row
};

}  // namespace tutti::winograd
