// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/plans/tile_plan.h>

#include <algorithm>
#include <cassert>

namespace tutti {

std::optional<TileLayout> plan_tiles(const ElementPlan& plan) noexcept {
  constexpr std::int64_t kSide = TileLayout::kSide;
  constexpr std::int64_t kShortest = kSide / 2;  // or most threads of a tile have no element
  assert(plan.operands == 2);
  const auto& target = plan.stride[0];
  const auto& source = plan.stride[1];
  const auto* const neighbours = std::find(source.begin(), source.begin() + plan.axes, 1);
  const auto across = static_cast<std::size_t>(neighbours - source.begin());
  if (target[0] != 1 || across == 0 || across == plan.axes || source[0] == 0) return std::nullopt;
  if (plan.length[0] < kShortest || plan.length[across] < kShortest) return std::nullopt;

  TileLayout layout;
  layout.target_axis = static_cast<std::uint32_t>(plan.length[0]);
  layout.source_axis = static_cast<std::uint32_t>(plan.length[across]);
  layout.target_stride = static_cast<std::int32_t>(target[across]);
  layout.source_stride = static_cast<std::int32_t>(source[0]);
  std::int64_t tiles = 1;
  std::uint32_t axes = 0;
  const auto add = [&](std::size_t axis, std::int64_t side) {
    const std::int64_t length = (plan.length[axis] + side - 1) / side;
    layout.tiles.length[axes] = Divisor(static_cast<std::uint32_t>(length));
    for (std::size_t i = 0; i < 2; ++i)
      layout.tiles.stride[i][axes] = static_cast<std::int32_t>(plan.stride[i][axis] * side);
    tiles *= length;
    ++axes;
  };
  add(0, kSide);
  add(across, kSide);
  for (std::size_t axis = 1; axis < plan.axes; ++axis)
    if (axis != across) add(axis, 1);
  layout.tiles.axes = axes;
  layout.tiles.items = static_cast<std::uint32_t>(tiles);
  return layout;
}

}  // namespace tutti
