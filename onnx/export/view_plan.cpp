// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/export/view_plan.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>

namespace tutti::onnx {

std::optional<Shape> common_shape(std::vector<std::int64_t> strides, std::int64_t size) {
  std::ranges::sort(strides, std::greater<>());
  const auto repeated = std::ranges::unique(strides);
  strides.erase(repeated.begin(), repeated.end());
  if (strides.empty() || strides.back() != 1) strides.push_back(1);
  Shape shape;
  std::int64_t within = size;
  for (const std::int64_t stride : strides) {
    if (stride < 1 || within % stride != 0) return std::nullopt;
    shape.push_back(within / stride);
    within = stride;
  }
  return shape;
}

std::optional<ViewPlan> plan_view_in(const Shape& shape, std::int64_t offset, const Shape& lengths,
                                     const Strides& strides) {
  const std::size_t rank = shape.size();
  const Strides along = contiguous_strides(shape);
  ViewPlan plan{{shape, Dims(rank, 0), Dims(rank, 1), Dims(rank, 1)}, {}};
  for (std::size_t axis = 0; axis < rank; ++axis) plan.box.begins[axis] = offset / along[axis] % shape[axis];

  std::vector<std::size_t> by_stride;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    if (lengths[i] > 1) by_stride.push_back(i);
  std::ranges::stable_sort(by_stride, std::greater<>(), [&](std::size_t i) { return strides[i]; });
  std::vector<std::int64_t> taken(lengths.size(), -1);
  std::size_t next = 0;
  for (const std::size_t i : by_stride) {
    std::size_t axis = next;
    while (axis < rank && (shape[axis] == 1 || along[axis] > strides[i])) ++axis;
    if (axis == rank || strides[i] % along[axis] != 0) return std::nullopt;
    const std::int64_t step = strides[i] / along[axis];
    if (plan.box.begins[axis] + (lengths[i] - 1) * step >= shape[axis]) return std::nullopt;
    plan.box.lengths[axis] = lengths[i];
    plan.box.steps[axis] = step;
    taken[i] = static_cast<std::int64_t>(axis);
    next = axis + 1;
  }
  std::vector<bool> placed(rank, false);
  std::vector<std::int64_t> order;
  for (const std::int64_t axis : taken)
    if (axis >= 0) {
      order.push_back(axis);
      placed[static_cast<std::size_t>(axis)] = true;
    }
  if (std::ranges::is_sorted(order)) {
    plan.permutation.resize(rank);
    std::iota(plan.permutation.begin(), plan.permutation.end(), 0);
    return plan;
  }
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (!placed[axis]) plan.permutation.push_back(static_cast<std::int64_t>(axis));
  plan.permutation.insert(plan.permutation.end(), order.begin(), order.end());
  return plan;
}

std::optional<ViewPlan> plan_view(const Shape& known, std::int64_t size, std::int64_t offset, const Shape& lengths,
                                  const Strides& strides) {
  if (auto plan = plan_view_in(known, offset, lengths, strides)) return plan;
  std::vector<std::int64_t> long_ones;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    if (lengths[i] > 1) long_ones.push_back(strides[i]);
  const std::optional<Shape> shape = common_shape(std::move(long_ones), size);
  return shape ? plan_view_in(*shape, offset, lengths, strides) : std::nullopt;
}

ScatteredPlan plan_scattered(std::int64_t size, std::int64_t offset, const Shape& lengths, const Strides& strides) {
  std::vector<std::int64_t> axes(lengths.size());
  std::iota(axes.begin(), axes.end(), 0);
  const auto stride = [&](std::int64_t axis) { return strides[static_cast<std::size_t>(axis)]; };
  const auto length = [&](std::int64_t axis) { return lengths[static_cast<std::size_t>(axis)]; };
  std::ranges::stable_sort(axes, std::greater<>(), stride);
  // As many outer axes as there are within which the inner ones stay.
  ScatteredPlan plan{{{size}, {0}, {size}, {1}}, {}, axes, {}, {}};
  std::int64_t within = size;
  for (std::size_t outer = 1; outer < axes.size(); ++outer) {
    const std::int64_t step = stride(axes[outer - 1]);
    std::int64_t reach = offset % std::max<std::int64_t>(step, 1);
    for (std::size_t i = outer; i < axes.size(); ++i) reach += (length(axes[i]) - 1) * stride(axes[i]);
    if (step < 1 || within % step != 0 || reach >= step) break;
    const std::int64_t begin = offset / step % (within / step);
    if (begin + length(axes[outer - 1]) > within / step) break;
    plan.box.of[outer - 1] = within / step;
    plan.box.begins[outer - 1] = begin;
    plan.box.lengths[outer - 1] = length(axes[outer - 1]);
    for (Dims* each : {&plan.box.of, &plan.box.lengths}) each->push_back(step);
    plan.box.begins.push_back(0);
    plan.box.steps.push_back(1);
    within = step;
    plan.outer_axes.push_back(axes[outer - 1]);
    plan.inner_axes.erase(plan.inner_axes.begin());
  }
  for (const std::int64_t axis : plan.inner_axes) plan.inner.push_back(length(axis));
  const Strides rows = contiguous_strides(plan.inner);
  for (std::int64_t i = 0; i < element_count(plan.inner); ++i) {
    std::int64_t position = offset % within;
    for (std::size_t axis = 0; axis < plan.inner.size(); ++axis)
      position += i / rows[axis] % plan.inner[axis] * stride(plan.inner_axes[axis]);
    plan.positions.push_back(position);
  }
  return plan;
}

}  // namespace tutti::onnx
