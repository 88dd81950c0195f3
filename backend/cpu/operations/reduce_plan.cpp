// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/operations/reduce_plan.h>

#include <algorithm>

namespace tutti {

ReducePlan::ReducePlan(const Array& input, const Array& output) {
  struct Found {
    Axis axis;
    bool is_kept;
  };
  CachedVector<Found> found;  // by stride, the largest first; of equal ones the first axis
  found.reserve(input.rank());
  for (std::size_t i = 0; i < input.rank(); ++i) {
    if (input.shape()[i] == 1) continue;
    const bool is_kept = output.shape()[i] != 1;
    const Axis axis{input.shape()[i], input.strides()[i], is_kept ? output.strides()[i] : 0};
    const auto place = std::ranges::find_if(found, [&](const Found& other) { return other.axis.stride < axis.stride; });
    found.insert(place, {axis, is_kept});
  }
  CachedVector<Found> joined;
  joined.reserve(found.size());
  for (const Found& next : found) {
    const Axis& axis = next.axis;
    const bool joins = !joined.empty() && joined.back().is_kept == next.is_kept &&
                       joined.back().axis.stride == axis.stride * axis.length &&
                       joined.back().axis.output_stride == axis.output_stride * axis.length;
    if (joins)
      joined.back().axis = {joined.back().axis.length * axis.length, axis.stride, axis.output_stride};
    else
      joined.push_back(next);
  }
  if (joined.empty()) return;
  inner = joined.back().axis;
  inner_is_kept = joined.back().is_kept;
  joined.pop_back();
  for (const Found& axis : joined) (axis.is_kept ? kept : reduced).push_back(axis.axis);
}

std::int64_t ReducePlan::count(std::span<const Axis> axes) {
  std::int64_t count = 1;
  for (const Axis& axis : axes) count *= axis.length;
  return count;
}

ReducePlan::Offsets ReducePlan::offsets(std::span<const Axis> axes, std::int64_t place) {
  Offsets offsets{0, 0};
  for (std::size_t i = axes.size(); i-- > 0;) {
    const std::int64_t position = i == 0 ? place : place % axes[i].length;
    place /= axes[i].length;
    offsets.input += position * axes[i].stride;
    offsets.output += position * axes[i].output_stride;
  }
  return offsets;
}

}  // namespace tutti
