// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/parts/element_layout.h>

namespace tutti {

/// A copy from elements that are neighbours along one axis to elements that are neighbours along another, cut into
/// square tiles: a block reads a tile along the source's axis and writes it along the target's. Operand 0 is the
/// target.
struct TileLayout {
  static constexpr std::uint32_t kSide = 32;

  ElementLayout tiles;            // an item is a tile; the first axis is the target's, the second the source's
  std::uint32_t target_axis = 0;  // lengths, in elements
  std::uint32_t source_axis = 0;
  std::int32_t target_stride = 0;  // stride of the target along the source's axis, in elements
  std::int32_t source_stride = 0;  // stride of the source along the target's axis, in elements
};

struct Tile {
  ElementOffsets<2> first;
  std::uint32_t target_axis;  // elements of this tile along each
  std::uint32_t source_axis;
};

TUTTI_HOST_DEVICE constexpr Tile tile_at(const TileLayout& layout, std::uint32_t tile) {
  constexpr std::uint32_t kSide = TileLayout::kSide;
  const auto rest = layout.tiles.length[0].quotient(tile);
  const std::uint32_t target_begin = (tile - rest * layout.tiles.length[0].value()) * kSide;
  const std::uint32_t outer = layout.tiles.length[1].quotient(rest);
  const std::uint32_t source_begin = (rest - outer * layout.tiles.length[1].value()) * kSide;
  const std::uint32_t target_left = layout.target_axis - target_begin;
  const std::uint32_t source_left = layout.source_axis - source_begin;
  return {element_offsets<2>(layout.tiles, tile), target_left < kSide ? target_left : kSide,
          source_left < kSide ? source_left : kSide};
}

}  // namespace tutti
