// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/parts/tile_layout.h>
#include <tutti/backend/cuda/plans/element_plan.h>

#include <optional>

namespace tutti {

/// Tiles for a plan of an output and one input, which fits 32 bits; nothing where other ways of copying are as good.
std::optional<TileLayout> plan_tiles(const ElementPlan&) noexcept;

}  // namespace tutti
