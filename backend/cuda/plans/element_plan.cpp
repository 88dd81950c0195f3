// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/plans/element_plan.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>

namespace tutti {
namespace {

/// Axes longer than 1, innermost first: those that the output's memory has closest together.
Dims order_axes(const Shape& shape, const Strides& output) {
  Dims order;
  for (std::size_t axis = shape.size(); axis-- > 0;)
    if (shape[axis] != 1) order.push_back(static_cast<std::int64_t>(axis));
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(output[static_cast<std::size_t>(a)]) < std::abs(output[static_cast<std::size_t>(b)]);
  });
  return order;
}

std::int64_t extent(const ElementPlan& plan, std::size_t operand, std::size_t axis) {
  return std::abs(plan.stride[operand][axis]) * (plan.length[axis] - 1);
}

}  // namespace

std::int64_t ElementPlan::size() const noexcept {
  std::int64_t product = 1;
  for (std::size_t axis = 0; axis < axes; ++axis) product *= length[axis];
  return product;
}

ElementPlan plan_elements(std::string_view operation, const Shape& shape, std::span<const Strides* const> strides) {
  assert(!strides.empty() && strides.size() <= ElementPlan::kOperands);
  ElementPlan plan;
  plan.operands = strides.size();
  std::size_t axes = 0;
  for (const std::int64_t index : order_axes(shape, *strides[0])) {
    const auto axis = static_cast<std::size_t>(index);
    bool joins = axes > 0;
    for (std::size_t i = 0; joins && i < strides.size(); ++i)
      joins = (*strides[i])[axis] == plan.stride[i][axes - 1] * plan.length[axes - 1];
    if (joins) {
      plan.length[axes - 1] *= shape[axis];
      continue;
    }
    if (axes == ElementPlan::kAxes)
      raise<ShapeError>("[{}] {}: strides that differ on more than {} axes; copy an operand first", operation,
                        to_string(shape), ElementPlan::kAxes);
    plan.length[axes] = shape[axis];
    for (std::size_t i = 0; i < strides.size(); ++i) plan.stride[i][axes] = (*strides[i])[axis];
    ++axes;
  }
  if (axes == 0)  // one element, its own neighbour
    for (std::size_t i = 0; i < strides.size(); ++i) plan.stride[i][0] = 1;
  plan.axes = std::max<std::size_t>(axes, 1);
  return plan;
}

bool fits(const ElementPlan& plan, std::int64_t limit) noexcept {
  if (plan.size() > limit) return false;
  for (std::size_t i = 0; i < plan.operands; ++i) {
    std::int64_t farthest = 0;
    for (std::size_t axis = 0; axis < plan.axes; ++axis) farthest += extent(plan, i, axis);
    if (farthest > limit) return false;
  }
  return true;
}

// Across the axis that reaches farthest, so that few cuts are enough; a cut keeps groups whole and aligned.
std::pair<ElementPlan, ElementPlan> halves(const ElementPlan& plan) noexcept {
  constexpr std::int64_t kMostLanes = 16;
  std::size_t cut = plan.axes - 1;
  std::int64_t farthest = 0;
  for (std::size_t axis = plan.axes; axis-- > 0;) {
    if (plan.length[axis] == 1) continue;
    std::int64_t reach = plan.length[axis];  // even where every stride is 0
    for (std::size_t i = 0; i < plan.operands; ++i) reach = std::max(reach, extent(plan, i, axis));
    if (reach <= farthest) continue;
    farthest = reach;
    cut = axis;
  }
  std::pair<ElementPlan, ElementPlan> parts{plan, plan};
  auto& [front, back] = parts;
  std::int64_t half = plan.length[cut] / 2;
  if (half > kMostLanes) half -= half % kMostLanes;
  front.length[cut] = half;
  back.length[cut] -= half;
  for (std::size_t i = 0; i < plan.operands; ++i) back.first[i] += half * plan.stride[i][cut];
  return parts;
}

bool can_group(const ElementPlan& plan, std::span<const ElementMemory> memory, std::int64_t lanes) noexcept {
  if (plan.axes > 1 && plan.length[0] % lanes != 0) return false;
  for (std::size_t i = 0; i < plan.operands; ++i) {
    const std::int64_t innermost = plan.stride[i][0];
    if (innermost == 0 && i > 0) continue;
    if (innermost != 1) return false;
    const auto bytes = static_cast<std::int64_t>(memory[i].bytes);
    const auto address = reinterpret_cast<std::intptr_t>(memory[i].data) + plan.first[i] * bytes;
    if (address % (lanes * bytes) != 0) return false;
    for (std::size_t axis = 1; axis < plan.axes; ++axis)
      if (plan.stride[i][axis] % lanes != 0) return false;
  }
  return true;
}

ElementBatch make_batch(const ElementPlan& plan, std::span<const ElementMemory> memory) noexcept {
  std::size_t widest = 1;
  for (const ElementMemory& operand : memory) widest = std::max(widest, operand.bytes);
  const auto most = static_cast<std::int64_t>(group_lanes(widest));
  ElementBatch batch;
  batch.grouped = can_group(plan, memory, most);
  const std::int64_t lanes = batch.grouped ? most : 1;
  const std::int64_t groups = (plan.length[0] + lanes - 1) / lanes;  // along the innermost axis

  ElementLayout& layout = batch.layout;
  layout.items = static_cast<std::uint32_t>(plan.size() / plan.length[0] * groups);
  layout.in_last = static_cast<std::uint32_t>(plan.length[0] - (groups - 1) * lanes);
  layout.axes = static_cast<std::uint32_t>(plan.axes);
  for (std::size_t axis = 0; axis < plan.axes; ++axis)
    layout.length[axis] = Divisor(static_cast<std::uint32_t>(axis == 0 ? groups : plan.length[axis]));
  for (std::size_t i = 0; i < plan.operands; ++i) {
    for (std::size_t axis = 0; axis < plan.axes; ++axis)
      layout.stride[i][axis] = static_cast<std::int32_t>(plan.stride[i][axis] * (axis == 0 ? lanes : 1));
    std::byte* first = memory[i].data + plan.first[i] * static_cast<std::int64_t>(memory[i].bytes);
    if (i == 0)
      batch.output = first;
    else
      batch.input[i - 1] = first;
  }
  return batch;
}

}  // namespace tutti
